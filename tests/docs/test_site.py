"""The documentation site has every page and loads nothing from elsewhere. `make site` builds and checks it."""

import re
from pathlib import Path

import pytest

from scripts.docs import client_page
from scripts.pictures import FOLDER, LOOKS, MOST_BYTES, PICTURES
from scripts.site import DOCS, FIRST, address, assemble, site_text, sources
from scripts.site_check import foreign_resources
from tests.docs.snippets import ROOT, original

CONFIGURATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
NAVIGATION = re.findall(r"^ +- (\S+\.md)$", CONFIGURATION.partition("\nnav:\n")[2], re.M)


def site_pages() -> set[str]:
    return {address(file) for file in sources() if file.suffix == ".md" and original(Path(address(file))) is None}


def test_the_navigation_names_every_page_once_and_no_missing_one() -> None:
    shown = {page for page in site_pages() if not re.match(r"decisions/0", page)}

    assert sorted(NAVIGATION) == sorted(shown)


def test_the_first_page_of_decisions_lists_every_decision() -> None:
    decisions = {file.name for file in (DOCS / "decisions").glob("0*.md")}

    assert set(re.findall(r"\((0[\w-]+\.md)\)", (DOCS / "decisions" / "README.md").read_text())) == decisions


def test_a_translation_stands_beside_its_original() -> None:
    assert [file for file in DOCS.rglob("*.zh.md") if not (source := original(file)) or not source.exists()] == []


@pytest.mark.parametrize("page", [ROOT / "README.zh-CN.md", *DOCS.rglob("*.zh.md")], ids=lambda page: page.name)
def test_a_page_in_chinese_leads_to_chinese_pages_where_there_are_some(page: Path) -> None:
    links = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)\.md\b", page.read_text(encoding="utf-8"))

    assert [link for link in links if not link.endswith(".zh") and (page.parent / f"{link}.zh.md").exists()] == []


def test_what_is_put_together_has_no_broken_link(tmp_path: Path) -> None:
    assemble(tmp_path)

    lost = [
        f"{page.relative_to(tmp_path)}: {link}"
        for page in tmp_path.rglob("*.md")
        for link in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert lost == []


def test_links_lead_to_where_things_stand_in_the_site() -> None:
    assert "](how-to/operate.md)" in site_text(ROOT / "README.md")
    assert "](project/ARCHITECTURE.md)" in site_text(ROOT / "README.md")
    assert "](../project/deploy/scripts/update.sh)" in site_text(DOCS / "how-to" / "upgrade.md")
    assert "](../decisions/README.md)" in site_text(ROOT / "ARCHITECTURE.md")


@pytest.mark.parametrize("readme", FIRST)
def test_the_first_page_follows_the_switch_of_the_site_and_not_the_system(readme: str) -> None:
    text = site_text(ROOT / readme)

    assert "#only-light)" in text
    assert "#only-dark)" in text
    assert "<picture>" not in text
    assert "README" not in text


def test_every_picture_is_there_and_small() -> None:
    names = {f"{name}-{look.theme}{'.zh' if look.lang == 'zh' else ''}.webp" for name in PICTURES for look in LOOKS}

    assert {file.name for file in FOLDER.iterdir()} == names
    assert [file.name for file in FOLDER.iterdir() if file.stat().st_size > MOST_BYTES] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<link rel="stylesheet" href="https://fonts.example/css">'),
        ("a.html", '<link rel="preconnect" href="//fonts.example">'),
        ("a.html", '<script src="https://cdn.example/x.js"></script>'),
        ("a.html", '<img srcset="https://img.example/x.png 2x">'),
        ("a.html", "<style>@import 'https://fonts.example/css'</style>"),
        ("a.html", '<p style="background: url(https://img.example/x.png)">'),
        ("a.html", '<pre class="mermaid"><code>a</code></pre>'),
        ("a.css", "body { background: url('//img.example/x.png') }"),
        ("a.css", '@import "https://fonts.example/css";'),
    ],
)
def test_what_comes_from_another_host_is_found(name: str, text: str) -> None:
    assert len(foreign_resources(name, text)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<a href="https://semver.org/">Semantic Versioning</a><img src="../img/home.webp">'),
        ("a.html", '<link rel="stylesheet" href="assets/site.css"><script src="../a.js"></script>'),
        ("a.css", "/* https://example.org */ body { background: url(data:image/svg+xml;base64,AA) }"),
    ],
)
def test_a_link_that_a_reader_follows_is_not_loaded(name: str, text: str) -> None:
    assert foreign_resources(name, text) == []


def test_the_theme_takes_no_font_from_elsewhere() -> None:
    assert re.search(r"^  font: false\b", CONFIGURATION, re.M)


def test_the_reference_of_the_client_has_every_room() -> None:
    shown = set(re.findall(r"^## `client\.(\w+)`$", client_page(), re.M))

    assert {"jobs", "schedules", "attention", "queues"} <= shown
