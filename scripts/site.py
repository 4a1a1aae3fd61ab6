"""Put the pages of the documentation site together: ``python -m scripts.site [FOLDER]``.

The site is ``docs/`` as it is, with README.md as its first page. What a page links to elsewhere in the repository comes
along under ``project/``, so that every link leads somewhere. MkDocs builds the rest.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONSOLE = ROOT / "src" / "horae" / "console" / "assets"
FIRST = {"README.md": "index.md", "README.zh-CN.md": "index.zh.md"}
MOVED = {**FIRST, "docs/README.md": "contents.md"}  # MkDocs takes a README.md for the first page of its folder
ASSETS = {
    CONSOLE / "img" / "icon.svg": "assets/icon.svg",
    CONSOLE / "vendor" / "inter-latin-5.3.0.woff2": "assets/inter.woff2",
    CONSOLE / "vendor" / "inter-LICENSE.txt": "assets/inter-LICENSE.txt",
    ROOT / "scripts" / "site.css": "assets/site.css",
}
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
# Git hosts choose a picture by the reader's system, the site by its own switch.
PICTURE = re.compile(
    r'<picture>.*?srcset="(?P<dark>[^"]+)".*?alt="(?P<alt>[^"]+)" src="(?P<light>[^"]+)".*?</picture>', re.S
)
OTHER_LANGUAGE = re.compile(r"\[(?:中文|English)\]\(README[\w.-]*\.md\) · ")


def address(source: Path) -> str:
    """Return where a file of the repository stands in the site."""
    path = source.relative_to(ROOT).as_posix()
    return MOVED.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"project/{path}")


def linked(page: Path) -> list[Path]:
    """Return the files of the repository that a page links to."""
    found = {(page.parent / link).resolve() for link in LINK.findall(page.read_text(encoding="utf-8"))}
    return sorted(file for file in found if file.is_file() and file.is_relative_to(ROOT))


def sources() -> list[Path]:
    """Return every file of the site: what is in docs/, the first pages, and whatever they lead to."""
    found = {ROOT / name for name in FIRST} | {file for file in DOCS.rglob("*") if file.is_file()}
    waiting = list(found)
    while waiting:
        page = waiting.pop()
        if page.suffix == ".md":
            new = set(linked(page)) - found
            found |= new
            waiting += new
    return sorted(found)


def site_text(page: Path) -> str:
    """Return the text of a page with links that lead to where things stand in the site."""
    here = PurePosixPath(address(page)).parent

    def moved(link: re.Match[str]) -> str:
        target = (page.parent / link[1]).resolve()
        # A page in Chinese names the Chinese one, for readers of the repository; the site chooses by itself.
        return os.path.relpath(address(target), here).replace(".zh.", ".") if target.is_file() else link[1]

    text = page.read_text(encoding="utf-8")
    text = PICTURE.sub(r"![\g<alt>](\g<light>#only-light)\n![\g<alt>](\g<dark>#only-dark)", text)
    return LINK.sub(moved, OTHER_LANGUAGE.sub("", text))


def assemble(folder: Path) -> None:
    """Write the pages and what they show into a folder, anew."""
    shutil.rmtree(folder, ignore_errors=True)
    for source in sources():
        target = folder / address(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(site_text(source), encoding="utf-8")
        else:
            shutil.copyfile(source, target)
    for source, name in ASSETS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)


if __name__ == "__main__":
    assemble(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site-pages"))
