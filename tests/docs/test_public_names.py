"""What is public is listed, changes only with a word in the changelog, and is all that our pages and examples use."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.public_names import MODULES
from tests.docs.snippets import ROOT, blocks, pages

LISTING = ROOT / "docs" / "reference" / "public-names.txt"
RELEASED = Path(__file__).with_name("public-names-released.txt")  # the list of the last release; the first: as of today
CHANGELOG = ROOT / "CHANGELOG.md"
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


def names_of(line: str) -> str:
    """``class horae.Horae(…)`` as ``horae.Horae``."""
    found = re.match(r"(?:class )?([\w.]+)", line)
    assert found is not None
    return found[1]


def unannounced(before: str, now: str, unreleased: str) -> list[str]:
    """Return the names that were added, removed or changed and that no code span of the changelog mentions."""
    changed = set(before.splitlines()) ^ set(now.splitlines())
    said = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", unreleased))))
    return sorted({name for line in changed if (name := names_of(line)).split(".")[-1] not in said})


def unreleased_section() -> str:
    found = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## \[|\Z)", CHANGELOG.read_text(encoding="utf-8"), re.M | re.S)
    assert found is not None
    return found[1]


def test_every_change_of_a_public_name_is_in_the_changelog() -> None:
    """The listing itself is compared with the code by test_reference."""
    now = LISTING.read_text(encoding="utf-8").partition("\n")[2]

    assert unannounced(RELEASED.read_text(encoding="utf-8").partition("\n")[2], now, unreleased_section()) == []


@pytest.mark.parametrize(
    ("now", "said", "missing"),
    [
        ("horae.f(a)\n", "", []),
        ("horae.f(a, b)\n", "", ["horae.f"]),
        ("horae.f(a, b)\n", "- `f` takes `b`.", []),
        ("horae.f(a, b)\n", "- f takes b.", ["horae.f"]),
        ("", "- `horae.f` is gone.", []),
        ("horae.f(a)\nclass horae.New()\n", "", ["horae.New"]),
    ],
)
def test_a_change_without_a_word_is_found(now: str, said: str, missing: list[str]) -> None:
    assert unannounced("horae.f(a)\n", now, said) == missing
