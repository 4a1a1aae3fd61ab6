"""The language of a request: which one its header Accept-Language prefers, for whatever answers it in sentences."""

from __future__ import annotations

from contextvars import ContextVar

from horae.words.languages import TAGS, Language, preferred_language

_CURRENT: ContextVar[Language] = ContextVar("horae_language", default="en")


def choose(accept_language: str) -> None:
    """Set the language of the request that is being answered; threads that work for it see it too."""
    _CURRENT.set(preferred_language(accept_language[:1000]))


def current() -> Language:
    return _CURRENT.get()


def headers() -> dict[str, str]:
    """Return the headers of an answer that has sentences in it."""
    return {"Content-Language": TAGS[current()], "Vary": "Accept-Language"}
