"""What is public is all that our pages and examples use."""

import ast
import re
from collections.abc import Iterator

from scripts.public_names import MODULES
from tests.docs.snippets import ROOT, blocks, pages

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
