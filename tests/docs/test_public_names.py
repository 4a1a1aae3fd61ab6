"""What is public is all that our pages and examples use."""

import ast
import re
from collections.abc import Iterator

from scripts.docs import PUBLIC_MODULES
from scripts.public_names import MODULES, listing, name_of
from tests.architecture.reading import SOURCE
from tests.docs.snippets import ROOT, blocks, pages

SPAN = re.compile(r"`[^`\n]+`")
DOTTED = re.compile(r"\bhorae(?:\.[a-z_]\w*)+")
INLINE = re.compile(r"from horae[\w.]* import \w+|import horae[\w.]*")


def imported(text: str) -> set[str]:
    """Return the modules of ours that a piece of Python imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
    return {name for name in found if name.split(".")[0] == "horae"}


def sources() -> Iterator[tuple[str, str]]:
    """Return every Python text that users read: blocks of pages, inline programs in their shells, and the examples."""
    for page in pages():
        for block in blocks(page):
            if block.language == "python":
                yield str(page.relative_to(ROOT)), block.text
            elif block.language == "bash":
                yield str(page.relative_to(ROOT)), "\n".join(INLINE.findall(block.text))
    for file in sorted((ROOT / "examples").rglob("*.py")):
        yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


MADE_FROM_SETTINGS = {"horae.django.app"}  # public too, with one name that only a Django project can make
SUITES = {"horae.testing.conformance.executors"}  # one class to inherit from; its tests are promises, not names


def strangers() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for place, text in sources():
        if hidden := imported(text) - set(MODULES) - MADE_FROM_SETTINGS - SUITES:
            found.setdefault(place, set()).update(hidden)
    return found


def test_pages_and_examples_import_public_modules_only() -> None:
    assert strangers() == {}


BY_NAME = {"horae.django", "horae.testing.pytest"}  # Django and pytest load them: nobody imports anything from them
LISTED = {name_of(line) for line in listing().splitlines()[1:]}
FOR_CONTRIBUTORS = ("ARCHITECTURE.md", "docs/contributing/")


def module_of(name: str) -> str:
    """Return the module of a dotted name, or ``horae`` for what has none: a logger, an event, a file."""
    while not (path := SOURCE.joinpath(*name.split(".")[1:])).with_suffix(".py").is_file() and not path.is_dir():
        name = name.rpartition(".")[0]
    return name


def named_in_prose(text: str) -> set[str]:
    """Return the modules of ours that stand in the code spans of a page, except in names that are listed."""
    return {module_of(name) for span in SPAN.findall(text) for name in DOTTED.findall(span) if name not in LISTED}


def test_pages_name_public_modules_only() -> None:
    public = {*MODULES, *MADE_FROM_SETTINGS, *SUITES, *BY_NAME, "horae.adapters"}
    found = {
        place: hidden
        for page in pages()
        if not (place := str(page.relative_to(ROOT))).startswith(FOR_CONTRIBUTORS)
        if (hidden := named_in_prose(page.read_text(encoding="utf-8")) - public)
    }

    assert found == {}


def test_a_hidden_module_in_prose_is_found() -> None:
    text = "`horae.core.jobs.job.JOB`, `horae.jobs`, `horae.bus.dispatch`, `horae.alerts.heartbeat.b()`, horae.doctor"
    assert named_in_prose(text) == {"horae.core.jobs.job", "horae", "horae.alerts.heartbeat"}


def test_every_module_of_the_reference_is_listed() -> None:
    assert set(PUBLIC_MODULES) - set(MODULES) == set()
