"""Every requirement that is cited is defined for contributors, and nothing that users read cites one."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from horae.cli.main import command_tree
from horae.errors import StoreUnavailable
from horae.service.asgi import build
from scripts.docs import commands
from scripts.public_names import MODULES, public_names
from scripts.requirements import CODE, PAGE, ROOT, citations, codes, defined
from tests.architecture.reading import Module, modules

CITED = re.compile(rf"{CODE.pattern}|\b(?i:documents?) 00\d")
FOR_CONTRIBUTORS = {"contributing", "decisions"}


def cited(text: str) -> list[str]:
    return CITED.findall(text)


def test_every_code_that_is_cited_has_a_line_on_the_page() -> None:
    known = set(defined(PAGE.read_text(encoding="utf-8")))

    assert [(str(file), sorted(found - known)) for file, found in citations() if found - known] == []


def test_no_code_has_two_lines() -> None:
    listed = defined(PAGE.read_text(encoding="utf-8"))

    assert len(listed) == len(set(listed))


def test_every_document_that_is_cited_by_number_is_defined() -> None:
    named = re.findall(r"^## Document (00\d):", PAGE.read_text(encoding="utf-8"), re.M)

    assert named == ["000", "001", "002", "003", "004"]


def test_a_range_cites_all_between_its_ends() -> None:
    first, last = f"S4-{9}", f"S4-{11}"  # not written out: this file cites no requirement

    assert codes(f"{first} to {last}") == codes(f"({first}…{last})") == {first, f"S4-{10}", last}


# -- what users read ------------------------------------------------------------------------------------------------


def pages() -> Iterator[tuple[str, str]]:
    """Pages, examples and files for deployment."""
    files = [
        *ROOT.glob("*.md"),
        *(file for folder in ("docs", "examples", "deploy") for file in (ROOT / folder).rglob("*")),
    ]
    for file in sorted(each for each in files if each.is_file() and not {"__pycache__", "img"} & set(each.parts)):
        place = file.relative_to(ROOT)
        if not FOR_CONTRIBUTORS & set(place.parts) and place.name not in ("CONTRIBUTING.md", "ARCHITECTURE.md"):
            yield str(place), file.read_text(encoding="utf-8")


def texts(module: Module) -> Iterator[tuple[int, str]]:
    """Strings of a module that a user may see: errors, help, metrics, descriptions. Docstrings are for engineers."""
    silent = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    is_read = module.floor == "mcp"  # an agent reads the docstring of a tool
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (is_read or id(node) not in silent):
            yield node.lineno, node.value


def described(value: Any) -> Iterator[str]:
    """Return every text of a JSON document, names included."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            yield from described(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from described(inner)
    elif isinstance(value, str):
        yield value


def documented(module: str) -> Iterator[tuple[str, str]]:
    """Return the docstrings of a public module, of its names and of their members."""
    found = importlib.import_module(module)
    yield module, found.__doc__ or ""
    for name in public_names(found):
        value = getattr(found, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield f"{module}.{name}", value.__doc__ or ""
        if inspect.isclass(value):
            for member, inner in inspect.getmembers(value):
                if not member.startswith("_"):
                    yield f"{module}.{name}.{member}", getattr(inner, "__doc__", None) or ""


def test_no_page_or_example_cites_a_requirement() -> None:
    assert {place: found for place, text in pages() if (found := cited(text))} == {}


def test_no_error_setting_metric_or_other_text_cites_a_requirement() -> None:
    found = [(module.place, line, cited(text)) for module in modules() for line, text in texts(module) if cited(text)]

    assert found == []


def test_no_command_cites_a_requirement_in_its_help() -> None:
    tree = commands(typer.main.get_command(command_tree()), "horae")
    helps = {name: [command.help or "", *(each.help or "" for each in command.params)] for name, command in tree}

    assert {name: found for name, texts in helps.items() if (found := cited("\n".join(texts)))} == {}


def test_the_description_of_the_api_cites_no_requirement() -> None:
    def nowhere() -> Any:
        raise StoreUnavailable("only the description is wanted")

    assert [text for text in described(build(nowhere).openapi()) if cited(text)] == []


@pytest.mark.parametrize("module", MODULES)
def test_no_public_docstring_cites_a_requirement(module: str) -> None:
    assert {name: found for name, text in documented(module) if (found := cited(text))} == {}


# -- what governance promises ------------------------------------------------------------------------------------------


def test_every_promise_of_governance_names_a_test_that_there_is() -> None:
    page = (PAGE.parent / "governance.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", page)
    promises = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| Promise")]
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.M)
    ]

    assert missing == []
    assert [line for line in promises if "::test_" not in line] == []
    assert len(promises) > 50
