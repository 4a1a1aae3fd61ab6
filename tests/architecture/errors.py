"""How errors are raised. Each rule takes a source tree and returns complaints, one line each.

An error is raised with a reason and facts, and its sentence stands once, in the tables of `horae.words`.
"""

import ast
import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

from horae import errors
from tests.architecture.reading import Module, modules

# Errors that are still raised with a sentence, by folder. The numbers may only become smaller.
SENTENCES: dict[str, int] = {
    "runtime": 1,  # what a handler said, as it said it
}

# Plain errors of Python with a sentence in ``src``, by module: those whose text is no refusal of ours, or is one that
# still has to get a reason. The numbers may only become smaller.
PLAIN: dict[str, int] = {
    "console/pages/lane.py": 1,  # translated where it stands, and shown in the form
    "service/auth/jwt.py": 1,  # for the log: keys that an operator names cannot be read
    "cli/demo/example.py": 1,  # a user's handler, as an example
    "cli/imports/pickled.py": 1,  # caught beside it: the file ends too early
    "stores/attention.py": 1,  # for the verification, which quotes it in its report
    "stores/journal.py": 1,  # likewise
    "stores/tables/attention.py": 1,  # likewise
    "testing/lab.py": 1,  # a mistake of the test's author
}

FAMILY = {
    name: each for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.HoraeError)
}
REASON_AT = {"QuotaExceeded": 2}  # which argument is the reason, where it is not the first
GIVEN = {"QuotaExceeded": {"allowed"}}  # facts that the class adds by itself
NO_FACTS = {"outcome_unknown", "retry_after", "limit"}  # keywords that are attributes of the class instead
COMMAND = re.compile(r"(Run|with): [^.]+$")  # stands last, as it is written
REASON = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")


@dataclass(frozen=True)
class Raised:
    """One place where an error is made; without a reason it is made with a sentence."""

    place: str
    kind: str
    reason: str | None
    facts: frozenset[str]


def raised(source: Path) -> Iterator[Raised]:
    for module in modules(source):
        found = own_reasons(module) if module.place == "errors.py" else made_errors(module)
        for kind, node, at in found:
            facts = {each.arg for each in node.keywords if each.arg} - NO_FACTS | GIVEN.get(kind, set())
            yield Raised(f"{module.place}:{node.lineno}", kind, reason_in(node.args[at : at + 1]), frozenset(facts))


def own_reasons(module: Module) -> Iterator[tuple[str, ast.Call, int]]:
    """Find where a class of the family gives its own reason: ``super().__init__("lock_held", key=key)``."""
    for group in module.tree.body:
        if not isinstance(group, ast.ClassDef):
            continue
        for node in ast.walk(group):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__" and reason_in(node.args):
                yield group.name, node, 0


def made_errors(module: Module) -> Iterator[tuple[str, ast.Call, int]]:
    """Find where an error is made whose class leaves the reason to the caller."""
    if "errors" not in module.text:
        return
    for node in module.every(ast.Call):
        package, _, kind = (module.full_name(node.func) or "").rpartition(".")
        if package == "horae.errors" and kind in FAMILY:
            parameters = inspect.signature(FAMILY[kind]).parameters
            if not {"reason", "args"}.isdisjoint(parameters):
                yield kind, node, REASON_AT.get(kind, 0)


def reason_in(arguments: list[ast.expr]) -> str | None:
    match arguments:
        case [ast.Constant(value=str(text)), *_] if REASON.fullmatch(text):
            return text
    return None


def reasons_without_words(source: Path, words: Mapping[str, str]) -> list[str]:
    return [
        f"{each.place}: {each.reason} has no sentence; write it into a table of horae.words"
        for each in raised(source)
        if each.reason is not None and each.reason not in words
    ]


def words_without_reasons(source: Path, words: Mapping[str, str]) -> list[str]:
    known = {each.reason for each in raised(source)}
    return [f"{reason}: no error is raised with it; delete its sentence" for reason in words if reason not in known]


def words_said_twice(tables: Mapping[str, Mapping[str, str]]) -> list[str]:
    found = Counter(reason for table in tables.values() for reason in table)
    return [f"{reason}: stands in {count} tables" for reason, count in found.items() if count > 1]


def broken_words(words: Mapping[str, str]) -> list[str]:
    """Find reasons that are no two words or more, and sentences without a beginning or an end."""
    return [
        f"{reason}: {text!r} is not a reason and a sentence"
        for reason, text in words.items()
        if not REASON.fullmatch(reason)
        or text != text.strip()
        or " " not in text
        or not (text.endswith((".", "?", "…", "}")) or COMMAND.search(text))
    ]


def facts_that_are_missing(source: Path, words: Mapping[str, str]) -> list[str]:
    return [
        f"{each.place}: {each.reason} speaks of {', '.join(sorted(missing))}, which the error is not given"
        for each in raised(source)
        if (missing := placeholders(words.get(each.reason or "", "")) - each.facts)
    ]


def reasons_of_two_kinds(source: Path) -> list[str]:
    kinds: dict[str, set[str]] = defaultdict(set)
    for each in raised(source):
        if each.reason is not None:
            kinds[each.reason].add(each.kind)
    return [f"{reason}: is raised as {', '.join(sorted(of))}" for reason, of in kinds.items() if len(of) > 1]


def errors_with_sentences(source: Path, allowed: Mapping[str, int] | None = None) -> list[str]:
    limits = SENTENCES if allowed is None else allowed
    found = Counter(each.place.split("/")[0].split(":")[0] for each in raised(source) if each.reason is None)
    complaints = [
        f"{floor}: {count} errors with their own sentence, {limits.get(floor, 0)} are known; raise a reason and facts"
        for floor, count in found.items()
        if count > limits.get(floor, 0)
    ]
    return complaints + [f"{floor}: has none any more; take it off the list" for floor in limits if not found[floor]]


def plain_errors_with_sentences(source: Path, allowed: Mapping[str, int] | None = None) -> list[str]:
    """Find ``raise ValueError("some words")``: callers get its text, but no reason."""
    limits = PLAIN if allowed is None else allowed
    found = Counter(
        module.place
        for module in modules(source)
        if "raise ValueError(" in module.text
        for node in module.every(ast.Raise)
        if isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "ValueError" and has_words(node.exc)
    )
    complaints = [
        f"{place}: {count} of ValueError with a sentence, {limits.get(place, 0)} are known; raise an error of the "
        "family with a reason and facts"
        for place, count in found.items()
        if count > limits.get(place, 0)
    ]
    return complaints + [
        f"{place}: has {found[place]}; correct the list" for place in limits if found[place] < limits[place]
    ]


def has_words(call: ast.Call) -> bool:
    texts = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant)]
    return any(isinstance(text, str) and " " in text and text.strip() for text in texts)


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}
