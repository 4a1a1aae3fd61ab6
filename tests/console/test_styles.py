"""Colours and sizes stand in one file, contrast is enough, and what browsers load is small and ours."""

import gzip
import hashlib
import re
import tomllib
from itertools import product
from pathlib import Path

import pytest

import horae.console
from horae.console import asset_files
from horae.console.rendering import POLICY
from tests.console.conftest import Browser

CONSOLE = Path(horae.console.__file__).parent
TOKENS = (CONSOLE / "assets/css/tokens.css").read_text()
SHEETS = [path for path in sorted((CONSOLE / "assets/css").glob("*.css")) if path.name != "tokens.css"]
TEMPLATES = sorted((CONSOLE / "templates").rglob("*.html"))
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl|oklch|lab|color)a?\(")
SIZE = re.compile(r"(?<![\w.-])\d*\.?\d+(?:px|rem|pt|cm)\b")
PAIR = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")
BUDGET = 150 * 1024
# What is written in which colour on which ground.
INKS = ("ink", "ink-soft", "accent", "done", "late", "dead")
GROUNDS = ("paper", "raised", "sunken")
ALSO = (("on-accent", "accent"), ("accent", "accent-soft"), ("dead", "dead-soft"))


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.name)
def test_a_style_sheet_closes_every_rule_before_the_next_part(sheet: Path) -> None:
    """A brace that got lost, in a merge perhaps, would take every later rule with it."""
    depth = 0
    for line in sheet.read_text().splitlines():
        assert depth == 0 or not line.startswith(("/*", ".")), line
        depth += line.count("{") - line.count("}")
    assert depth == 0


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.name)
def test_no_colour_or_size_stands_outside_the_tokens(sheet: Path) -> None:
    rules = re.sub(r"@media[^{]*", "", re.sub(r"/\*.*?\*/", "", sheet.read_text(), flags=re.DOTALL))
    assert COLOUR.findall(rules) == []
    assert SIZE.findall(rules) == []


def test_every_token_that_is_used_exists_and_every_one_is_used() -> None:
    everything = "".join(path.read_text() for path in SHEETS)
    used = set(re.findall(r"var\(--([\w-]+)\)", everything + TOKENS))
    assert used == set(re.findall(r"^ *--([\w-]+):", TOKENS, re.MULTILINE))


def test_there_are_at_most_six_sizes_of_text() -> None:
    sizes = {value for path in SHEETS for value in re.findall(r"font-size: ([^;]+);", path.read_text())}
    assert len({each for each in sizes if "text-" in each}) <= 6
    assert {each for each in sizes if "text-" not in each} <= {"100%", "0.93em"}


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(theme: int) -> None:
    colours = {name: pair[theme] for name, *pair in PAIR.findall(TOKENS)}
    pairs = [*product(INKS, GROUNDS), *ALSO]
    weak = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: round(value, 2) for pair, value in weak.items() if value < 4.5} == {}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(CONSOLE)))
def test_a_template_has_nothing_that_the_policy_forbids(template: Path) -> None:
    text = template.read_text()
    assert re.findall(r"\sstyle\s*=|<style|\son\w+\s*=|javascript:|hx-on|\bjs:|hx-vals|\[[^\]]*\]\s*from:", text) == []
    assert all("src=" in script for script in re.findall(r"<script[^>]*>", text))
    assert "|safe" not in text.replace(" ", "")
    assert re.findall(r"(?:src|href|action)=\"(?:https?:)?//", text) == []


def test_every_form_that_posts_has_a_token() -> None:
    without = [
        (template.name, form[:60])
        for template in TEMPLATES
        for form in re.findall(r"<form\b(?:(?!</form>).)*", template.read_text(), re.DOTALL)
        if 'method="post"' in form and "csrf_field" not in form
    ]
    assert without == []


def test_what_a_browser_loads_fits_the_budget() -> None:
    size = sum(len(gzip.compress(content, 6)) for content in asset_files.contents().values())
    assert size < BUDGET, f"{size / 1024:.0f} KB"


def test_vendored_files_are_what_the_manifest_says() -> None:
    folder = CONSOLE / "assets/vendor"
    listed = tomllib.loads((folder / "MANIFEST.toml").read_text())["file"]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    for each in listed:
        assert found.pop(each["name"]) == each["sha256"], each["name"]
        assert found.pop(each["licence_file"])
        assert {"project", "version", "source", "licence"} <= set(each)
    assert list(found) == ["MANIFEST.toml"]


def test_assets_are_kept_for_a_year_under_their_version_and_asked_for_again_without(browser: Browser) -> None:
    name = "css/tokens.css"
    kept = browser.get(f"/assets/{asset_files.version()}/{name}")
    asked = browser.get(f"/assets/{name}")
    assert "immutable" in kept.headers["cache-control"]
    assert asked.headers["cache-control"] == "no-cache"
    assert browser.get(f"/assets/{name}", headers={"If-None-Match": asked.headers["etag"]}).status_code == 304
    assert kept.headers["content-type"] == "text/css; charset=utf-8"


@pytest.mark.parametrize(
    "name", ["../install.py", "css/../../install.py", "%2e%2e/install.py", "vendor/MANIFEST.toml", ""]
)
def test_nothing_but_assets_is_served(name: str, browser: Browser) -> None:
    assert browser.get(f"/assets/{name}").status_code == 404


def test_the_policy_is_the_one_that_was_decided() -> None:
    assert POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
