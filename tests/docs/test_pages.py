"""Every snippet runs, every link leads somewhere, nothing is left out without a reason."""

import re
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.docs.snippets import PLACEHOLDERS, ROOT, Teller, blocks, matches, original, pages, runs

TRANSLATED = [page for page in pages() if original(page)]
TOLD = [page for page in pages() if page not in TRANSLATED and any(runs(block) for block in blocks(page))]
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|#)([^)#\s]+)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def servers_of(page: Path) -> list[str]:
    """Return the servers that a page talks to: those whose placeholder URL it shows."""
    text = page.read_text(encoding="utf-8")
    return [kind for kind, shown in PLACEHOLDERS.items() if shown in text]


def answer(page: Path) -> ParameterSet:
    return pytest.param(page, id=name(page), marks=[pytest.mark.server] if servers_of(page) else [])


@pytest.mark.timeout(400)  # a page may start two dozen commands, one after the other
@pytest.mark.parametrize("page", [answer(page) for page in TOLD])
def test_what_a_page_shows_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    urls = {kind: request.getfixturevalue(f"{kind}_database_url") for kind in servers_of(page)}
    teller = Teller(tmp_path, urls)
    for block in blocks(page):
        teller.tell(block)


@pytest.mark.parametrize("page", [pytest.param(page, id=name(page)) for page in pages()])
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    lost = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]

    assert lost == []


@pytest.mark.parametrize("page", [pytest.param(page, id=name(page)) for page in TRANSLATED])
def test_a_translation_has_the_blocks_of_its_original_to_the_letter(page: Path) -> None:
    """So that they need not be run a second time."""
    source = original(page)
    assert source is not None

    assert [(each.language, each.mark, each.text) for each in blocks(page)] == [
        (each.language, each.mark, each.text) for each in blocks(source)
    ]


def test_a_block_that_is_not_run_says_why() -> None:
    marks = {block.mark for page in pages() for block in blocks(page)} - {"", "prints"}

    assert [mark for mark in marks if not re.fullmatch(r"not run: \w.+", mark)] == []


def test_the_readme_shows_fifteen_lines_and_the_chinese_one_the_same() -> None:
    english, chinese = (
        [block.text for block in blocks(ROOT / readme) if block.language == "python"]
        for readme in ("README.md", "README.zh-CN.md")
    )

    assert english == chinese
    assert len(english[0].splitlines()) <= 16


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_readme_leads_to_every_how_to(readme: str) -> None:
    found = set(re.findall(r"docs/how-to/([\w-]+)(?:\.zh)?\.md", (ROOT / readme).read_text(encoding="utf-8")))

    assert {page.name.partition(".")[0] for page in (ROOT / "docs" / "how-to").glob("*.md")} - found == set()


def test_dots_stand_for_anything_and_nothing_else_does() -> None:
    assert matches("a … z\n", "a b\nc z\n")
    assert not matches("a … z\n", "a b c")
    assert not matches("a.c", "abc")


def test_the_example_is_the_one_of_the_readme() -> None:
    (shown,) = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]

    assert (ROOT / "examples" / "receipts.py").read_text(encoding="utf-8") == shown


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/explanation/the-walk-of-a-job.md"])
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    named = re.findall(r"`(\w+(?:/\w+)*\.py)`", (ROOT / page).read_text(encoding="utf-8"))

    assert [file for file in named if not (ROOT / "src" / "horae" / file).exists()] == []


TOOLS = ("curl", "jq")


@pytest.mark.parametrize("page", [pytest.param(page, id=name(page)) for page in pages()])
def test_a_page_names_the_tools_that_it_needs_beside_ours(page: Path) -> None:
    """In prose, before or after the block that uses them: a newcomer may not have them."""
    text = page.read_text(encoding="utf-8")
    shown = "\n".join(block.text for block in blocks(page) if block.language == "bash")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    used = [tool for tool in TOOLS if re.search(rf"(^|[|($]\s*|exec ){tool} ", shown, re.M)]

    assert [tool for tool in used if f"`{tool}`" not in prose] == []


EXTRAS = {
    r"^horae server\b|^from fastapi\b|^from horae\.(outgoing|service)\b": "extra `server`",
    r"^from horae import (Async)?Client\b": "horae[",  # client, or server, which has it too
    r"^from opentelemetry\b": "extra `otel`",
    r"^from mcp\b": "horae[mcp]",
    r"\bpytest\b": "`pytest`",
    r"\baiosqlite\b": "sqlalchemy[asyncio]",
}


@pytest.mark.parametrize("page", [pytest.param(page, id=name(page)) for page in pages()])
def test_a_page_names_the_extras_that_it_needs(page: Path) -> None:
    """A newcomer begins with `pip install .` and nothing else."""
    text = page.read_text(encoding="utf-8")
    shown = "\n".join(block.text for block in blocks(page) if runs(block))

    assert [words for use, words in EXTRAS.items() if re.search(use, shown, re.M) and words not in text] == []
