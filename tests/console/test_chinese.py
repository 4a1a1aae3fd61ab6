"""Every page in Chinese, over a day with something of everything: no sentence of ours is left in English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sqlalchemy import text

from horae import Horae
from horae.settings import Settings
from horae.testing.clock import VirtualClock
from scripts.screenshots import BEGINS, PAGES, REMEMBERS, TENANT, ids_of, live
from tests.console.conftest import Browser
from tests.console.ground import a_token
from tests.support.templates import put_tables

# Three words in a row are a sentence; names, commands and identifiers stand in elements of their own.
SENTENCE = re.compile(r"[A-Za-z][A-Za-z'’]*(?: [A-Za-z][A-Za-z'’]*){2,}")
NOT_OURS = {"code", "pre", "script", "style", "textarea", "option"}
VOID = {"input", "br", "meta", "link", "hr", "img", "path", "circle", "rect", "line", "use", "col"}


class Visible(HTMLParser):
    """Collects the text that a reader sees, without code and without what is marked as English."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag not in VOID:
            classes = (given.get("class") or "").split()
            self.open.append((tag, tag in NOT_OURS or "mono" in classes or given.get("lang") == "en"))
        self.texts += [given[name] or "" for name in ("aria-label", "placeholder", "title") if given.get(name)]

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            continue

    def handle_data(self, data: str) -> None:
        if not any(hidden for _, hidden in self.open):
            self.texts.append(" ".join(data.split()))


def sentences(page: str) -> set[str]:
    seen = Visible()
    seen.feed(page)
    return {found for each in seen.texts for found in SENTENCE.findall(each)}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[tuple[Horae, dict[str, str]]]:
    clock = VirtualClock(REMEMBERS)
    with Horae(put_tables(tmp_path / "horae.db"), clock=clock) as app:
        made = live(app, clock, BEGINS, hours=3)
        yield app, ids_of(app, made)


def stored(app: Horae) -> str:
    """Return all that is stored: what people and agents wrote stays in their own language."""
    with app.engine.connect() as connection:
        tables = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars().all()
        rows = [row for name in tables for row in connection.execute(text(f'SELECT * FROM "{name}"'))]
    return " ".join(str(value) for row in rows for value in row)


@pytest.mark.slow
def test_no_sentence_of_ours_is_english_on_a_chinese_page(told: tuple[Horae, dict[str, str]]) -> None:
    app, known = told
    service = app.asgi(Settings(server_chores=False))
    operator, tenant = Browser(service), Browser(service)
    operator.log_in(a_token(app.world))
    tenant.log_in(a_token(app.world, TENANT, "tasks"))
    written = stored(app)
    left = {}
    for name, path in PAGES.items():
        whole = path.format(**known)
        reader = tenant if name.startswith("task") else operator
        page = reader.open(f"{whole}{'&' if '?' in whole else '?'}lang=zh")
        english = {each for each in sentences(page) if each not in written}
        if english:
            left[name] = english
    assert left == {}


def test_an_english_sentence_is_found_and_code_is_not() -> None:
    page = '<p>这里 is not a sentence 好</p><code>horae job list all</code><p lang="en">At nine every day</p>'
    assert sentences(page) == {"is not a sentence"}
