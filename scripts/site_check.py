"""Check the built documentation site: ``python -m scripts.site_check [FOLDER]``.

Nothing on it may come from another host, and its search must find English and Chinese words, in a real Chromium.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.support.browsing import chromium

FOREIGN = re.compile(r"(?:https?:)?//", re.I)
STYLED = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", re.I)
LOADED = {"src", "srcset", "poster", "data"}  # whatever the tag; an <a href> is only followed by a reader
# A page, a word to look for there, and the page that must be among what is found.
SEARCHES = [
    ("index.html", "lease", "explanation/leases-and-fences/"),
    ("index.html", "misfire", "tutorial/3-schedules/"),
    ("zh/index.html", "租约", "zh/tutorial/2-when-it-fails/"),
    ("zh/index.html", "救活", "zh/tutorial/2-when-it-fails/"),
    ("zh/index.html", "定时计划", "zh/tutorial/3-schedules/"),
]
WALKED = ["index.html", "zh/index.html", "reference/states/index.html", "zh/tutorial/1-first-job/index.html"]


class Resources(HTMLParser):
    """Collect what a page makes a browser load from another host."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if (name in LOADED or (tag, name) == ("link", "href")) and FOREIGN.match(value or ""):
                self.found.append(f"<{tag} {name}={value}>")
            if name == "style":
                self.found += STYLED.findall(value or "")
            if name == "class" and "mermaid" in (value or "").split():
                self.found.append("a diagram for which the theme loads mermaid from a CDN")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.found += STYLED.findall(data)


def foreign_resources(name: str, text: str) -> list[str]:
    """Return what an HTML or CSS file loads from another host."""
    if name.endswith(".css"):
        return STYLED.findall(text)
    reader = Resources()
    reader.feed(text)
    return reader.found


def foreign_in(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".html", ".css"):
            for found in foreign_resources(file.name, file.read_text(encoding="utf-8")):
                yield f"{file.relative_to(folder)} loads {found}"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def walk(page: Any, url: str) -> Iterator[str]:
    """Open some pages and search them; yield what went wrong."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in WALKED:
        page.goto(f"{url}/{path}")
        page.wait_for_load_state("networkidle")
    for path, word, wanted in SEARCHES:
        page.goto(f"{url}/{path}")
        field = page.locator(".md-search__input")
        field.fill(word)
        field.press("End")  # the theme looks when a key comes up
        results = page.locator("a.md-search-result__link")
        try:
            results.first.wait_for(timeout=20_000)
        except Exception as problem:
            yield f"{path}: a search for {word} finds nothing ({type(problem).__name__})"
            continue
        found = [
            link.partition("?")[0].removeprefix(f"{url}/")
            for link in results.evaluate_all("all => all.map(a => a.href)")
        ]
        if wanted not in found:
            yield f"{path}: a search for {word} does not find {wanted}, but {found[:5]}"
    yield from (f"a page asks {other}" for other in asked if not other.startswith((url, "data:", "blob:")))


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")
    problems = list(foreign_in(folder))
    with served(folder) as url, chromium() as browser:
        problems += walk(browser.new_page(), url)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{folder}: {len(problems)} problems in {sum(1 for _ in folder.rglob('*.html'))} pages")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
