"""The console's texts: English in the sources, other languages in catalogues.

``_("…")`` and ``ngettext`` translate into the language of the request. A catalogue is a ``.po`` file in ``locale/``,
read as it is: there is no compiled copy that could be stale. ``scripts/texts.py`` brings the catalogues in line with
the sources. The pseudo-locale ``qps`` marks and lengthens every text, so that one without a translation, or a place
that is too narrow for another language, is seen at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias, get_args

from babel.messages.pofile import read_po

from horae.core.dataclass import dataclass
from horae.words.languages import Language, preferred_language

Locale: TypeAlias = Literal["en", "zh", "qps"]
LOCALES: tuple[Locale, ...] = get_args(Locale)
TAGS: dict[Locale, str] = {"en": "en", "zh": "zh-Hans", "qps": "en-x-pseudo"}  # of the attribute lang
NAMES: dict[Locale, str] = {"en": "English", "zh": "中文"}  # that a reader may choose
FOLDERS: dict[Locale, str] = {"zh": "zh_CN"}
BABEL: dict[Locale, str] = {"en": "en", "zh": "zh_Hans_CN", "qps": "en"}  # for dates and numbers
ACCENTS = str.maketrans("aceinouyACEINOUY", "áçéíñóúýÁÇÉÍÑÓÚÝ")
_CURRENT: ContextVar[Locale] = ContextVar("horae_console_locale", default="en")


@dataclass(frozen=True)
class Catalogue:
    """The translations of one language, by the English text; a plural has one for each form."""

    texts: Mapping[str, tuple[str, ...]]

    def find(self, text: str, form: int = 0) -> str | None:
        found = self.texts.get(text)
        return found[min(form, len(found) - 1)] if found else None


@cache
def catalogue(locale: Locale) -> Catalogue:
    """Read the catalogue of a language."""
    source = files("horae.console") / "locale" / FOLDERS[locale] / "console.po"
    with source.open("rb") as file:
        messages = read_po(file, locale=FOLDERS[locale])
    texts: dict[str, tuple[str, ...]] = {}
    for each in messages:
        if each.id and each.string:
            key = each.id[0] if isinstance(each.id, tuple | list) else each.id
            texts[key] = (each.string,) if isinstance(each.string, str) else tuple(each.string)
    return Catalogue(texts)


def choose(locale: Locale) -> None:
    """Set the language of the page that is being made."""
    _CURRENT.set(locale)


def current() -> Locale:
    return _CURRENT.get()


def language() -> Language:
    """Return the language of sentences that the rooms give: why lines, errors, words of a schedule."""
    return "zh" if current() == "zh" else "en"


def locale_from(*given: str | None, accept_language: str = "") -> Locale:
    """Return the first of these that is a language of ours, else the one that the browser prefers."""
    for each in given:
        if each in LOCALES:
            return each
    return preferred_language(accept_language[:1000])


def gettext(text: str, /, **facts: Any) -> str:
    """Return a text in the language of the request, its ``%(name)s`` filled in."""
    return _fill(_translate(text), facts)


def ngettext(one: str, many: str, count: int, /, **facts: Any) -> str:
    """Return the form of a text for a count; ``%(num)s`` is the count itself."""
    return _fill(plural(one, many, count), {"num": count, **facts})


def plural(one: str, many: str, count: int) -> str:
    """Return the form of a text for a count, its facts not yet filled in."""
    form = 0 if count == 1 else 1
    chosen = (one, many)[form]
    found = catalogue(current()).find(one, form) if current() in FOLDERS else None
    return found or (pseudo(chosen) if current() == "qps" else chosen)


_ = gettext


def listed(items: Iterable[object]) -> str:
    """Return things one after the other, as the language of the request writes them."""
    return gettext(", ").join(map(str, items))


def mark(text: str) -> str:
    """Mark a text that is translated later, where it is shown."""
    return text


def pseudo(text: str) -> str:
    """Return a text that is longer and marked, and can still be read; placeholders stay as they are."""
    parts = text.split("%(")
    accented = parts[0].translate(ACCENTS) + "".join(
        f"%({name}){kind}{rest.translate(ACCENTS)}" for name, kind, rest in (_placeholder(part) for part in parts[1:])
    )
    return f"⟦{accented}{'·' * (len(text) // 3)}⟧"


def _placeholder(part: str) -> tuple[str, str, str]:
    name, _, rest = part.partition(")")
    return name, rest[:1], rest[1:]


def _translate(text: str) -> str:
    locale = current()
    if locale == "qps":
        return pseudo(text)
    return (catalogue(locale).find(text) if locale in FOLDERS else None) or text


def _fill(text: str, facts: Mapping[str, Any]) -> str:
    return text % facts if facts else text
