"""Bring the console's catalogues in line with its sources: ``python -m scripts.texts``.

New texts are added without a translation, texts that are gone are removed, and translations stay. With ``--missing``
only the texts without a translation are printed.
"""

import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

CONSOLE = Path(__file__).parents[1] / "src" / "horae" / "console"
LOCALES = ("zh_CN",)
KEYWORDS = {"_": None, "gettext": None, "mark": None, "ngettext": (1, 2)}
PLURALS = {"zh_CN": 1}


def found() -> Iterator[tuple[str, int, str | tuple[str, ...]]]:
    """Return every text of the sources: its file, its line, and the text or its two forms."""
    for path in sorted(CONSOLE.rglob("*.py")) + sorted(CONSOLE.rglob("templates/**/*.html")):
        method = "python" if path.suffix == ".py" else "jinja2.ext:babel_extract"
        options = {"extensions": "jinja2.ext.do", "silent": "false"} if path.suffix == ".html" else {}
        with path.open("rb") as source:
            for line, text, _, _ in extract(method, source, keywords=KEYWORDS, options=options):
                yield str(path.relative_to(CONSOLE)), line, text


def template() -> Catalog:
    """Return all texts of the sources, without translations."""
    made = Catalog(charset="utf-8")
    for _, _, text in found():
        made.add(text)
    return made


def catalogue_path(locale: str) -> Path:
    return CONSOLE / "locale" / locale / "console.po"


def read(locale: str) -> Catalog:
    path = catalogue_path(locale)
    if not path.exists():
        return Catalog(locale=locale, charset="utf-8")
    with path.open("rb") as file:
        return read_po(file, locale=locale)


def updated(locale: str) -> bytes:
    """Return the catalogue as it should be."""
    known = read(locale)
    wanted = Catalog(locale=locale, charset="utf-8", project="Horae", fuzzy=False)
    for message in template():
        if message.id:
            before = known.get(message.id)
            string = before.string if before is not None else None
            wanted.add(message.id, string or ((("",) * PLURALS[locale]) if message.pluralizable else ""))
    file = BytesIO()
    write_po(file, wanted, width=120, omit_header=True, sort_output=True)
    return file.getvalue()


def missing(locale: str) -> list[str]:
    """Return the texts without a translation."""
    known = read(locale)
    texts = []
    for message in template():
        found_one = known.get(message.id) if message.id else None
        strings = () if found_one is None else found_one.string
        if message.id and not all((strings,) if isinstance(strings, str) else strings or ("",)):
            texts.append(message.id if isinstance(message.id, str) else message.id[0])
    return sorted(texts)


def main() -> None:
    for locale in LOCALES:
        if "--missing" not in sys.argv:
            catalogue_path(locale).parent.mkdir(parents=True, exist_ok=True)
            catalogue_path(locale).write_bytes(updated(locale))
        for text in missing(locale):
            print(f"{locale}: {text}")


if __name__ == "__main__":
    main()
