"""The index of ``docs/``: every page of the navigation with its title and what it is for."""

import re
from pathlib import Path

from scripts.markdown import NOTE

ROOT = Path(__file__).parents[1]
BLOCKS = re.compile(r"^```.*?^```$|^<!--.*?-->$", re.M | re.S)
CODES = re.compile(r"\b(?:S\d|C)-\d")  # of requirements, which only their own page explains
SPECIAL = {"index.md": "../README.md"}  # what stands elsewhere in the site


def index_page() -> str:
    """Return the page, in the order of the navigation in mkdocs.yml."""
    lines, has_pages = [NOTE, "", "# Documentation"], False
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    for line in navigation.splitlines():
        depth, _, entry = line.partition("- ")
        if entry.endswith(":"):
            lines += ["", f"{'#' * (2 + len(depth) // 6)} {entry.removesuffix(':')}"]
            has_pages = False
        elif entry and entry != "contents.md":
            lines += [] if has_pages else [""]
            has_pages = True
            lines.append(page_line(SPECIAL.get(entry) or entry.replace("project/", "../", 1)))
    return "\n".join(lines) + "\n"


def page_line(path: str) -> str:
    """Return a link to a page with its title, and its first sentence."""
    text = BLOCKS.sub("", (ROOT / "docs" / path).read_text(encoding="utf-8"))
    title = next(line for line in text.splitlines() if line.startswith("# ")).removeprefix("# ")
    about = "" if CODES.search(first_sentence(text)) else first_sentence(text)
    return f"- [{title}]({path}){f': {about}' if about else ''}"


def first_sentence(text: str) -> str:
    """Return the first sentence of a page in plain text, without its links; nothing where it begins otherwise."""
    paragraphs = (each.strip() for each in text.split("\n\n"))
    first = next((each for each in paragraphs if each and each[0] not in "#|<-*>![0123456789"), "")
    plain = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", " ".join(first.split())).removeprefix("Goal: ")
    sentence = re.split(r"(?<=[.!?])\s|:\s*$|;\s", plain, maxsplit=1)[0].rstrip(".;:")
    return sentence[:1].lower() + sentence[1:] if sentence and not sentence.startswith(("Horae", "`")) else sentence
