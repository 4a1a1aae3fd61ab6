"""Payloads of jobs: plain JSON, bounded in size and depth, storable in every database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from horae.errors import InvalidInput, InvalidName, InvalidPayload

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 100
ANY_SIZE = 2**63
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]*")
_SCALARS = frozenset({str, int, float, bool, type(None)})
_TEXT = frozenset({str})
_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode


def _make_flat_encoder() -> Callable[[Any, int], Iterable[str]]:
    """Return an encoder for values without any inside them, which need no watch for circles; it returns parts.

    ``JSONEncoder.encode`` makes an encoder with such a watch for every value, which takes longer than its work.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # another Python, which has no such part written in C
        return lambda value, _: [_encode(value)]
    made: Callable[[Any, int], Iterable[str]] = make(
        None, None, json.encoder.encode_basestring, None, ":", ",", False, False, False
    )
    return made


_flat_parts = _make_flat_encoder()


def encode(value: Any, what: str = "payload", max_bytes: int | None = MAX_BYTES) -> str:
    """Return the value as compact JSON text, or a refusal that says what is wrong with it.

    Without *max_bytes* size and depth are not asked for: the value is made of parts that were bounded before.
    """
    if value == {} and type(value) is dict:
        return "{}"  # what most scheduled jobs have
    is_flat = _is_flat(value)
    try:
        text = "".join(_flat_parts(value, 0)) if is_flat else _encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except RecursionError:
        raise _too_deep(what) from None
    except UnicodeEncodeError:
        raise InvalidPayload("lone_surrogate", what=what) from None
    except (TypeError, ValueError) as problem:
        raise InvalidPayload("not_json", what=what, problem=str(problem)) from None
    if max_bytes is not None and size > max_bytes:
        raise InvalidPayload("too_large", what=what, size=size, most=max_bytes)
    if "\\u0000" in text and _ESCAPED_NUL.search(text):
        raise InvalidPayload("nul_character", what=what)
    if max_bytes is None or is_flat:
        return text
    _check_keys(value, what)
    if text.count("[") + text.count("{") > MAX_DEPTH and depth(value) > MAX_DEPTH:
        raise _too_deep(what)
    return text


def check_plain(value: Any, what: str) -> None:
    """Refuse a value that cannot be stored; how large it may be is known where it is stored."""
    encode(value, what, ANY_SIZE)


def decode(text: str) -> Any:
    return json.loads(text)


def _is_flat(value: Any) -> bool:
    """Return whether there is nothing to check, as in most payloads: text for keys, and no value inside another."""
    if type(value) is not dict:
        return type(value) in _SCALARS
    for key, child in value.items():  # noqa: SIM110 - as a generator it takes twice as long, for every job
        if type(key) is not str or type(child) not in _SCALARS:
            return False
    return True


def _check_keys(value: Any, what: str) -> None:
    """Refuse keys that are no text: JSON would store 1 as "1", and of two such keys keep one."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if not _TEXT.issuperset(map(type, node)):
                wrong = next((key for key in node if not isinstance(key, str)), None)
                if wrong is not None or None in node:
                    refuse_key(wrong, what)
            if not _SCALARS.issuperset(map(type, node.values())):
                waiting += [child for child in node.values() if type(child) not in _SCALARS]
        elif isinstance(node, list | tuple) and not _SCALARS.issuperset(map(type, node)):
            waiting += [child for child in node if type(child) not in _SCALARS]


def refuse_key(key: object, what: str) -> NoReturn:
    raise InvalidPayload("key_not_text", what=what, key=repr(key), text=str(key))


def depth(value: Any) -> int:
    """Return how deeply a JSON value is nested, without recursion."""
    deepest = 0
    waiting = [(value, 1)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, dict | list | tuple):
            deepest = max(deepest, level)
            waiting += [(child, level + 1) for child in (node.values() if isinstance(node, dict) else node)]
    return deepest


def _too_deep(what: str) -> InvalidPayload:
    return InvalidPayload("too_deep", what=what, most=MAX_DEPTH)


def name(value: str, what: str, max_length: int = 100) -> str:
    """Return a name for queues, handlers and the like: printable, without spaces, safe in URLs and metrics."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > max_length:
        raise InvalidName("name_unreadable", what=what, value=repr(value), most=max_length)
    return value


def true_or_false(value: object, what: str) -> bool:
    """Accept a boolean and nothing else: the text "no" is true to Python."""
    if not isinstance(value, bool):
        raise InvalidInput("not_boolean", name=what, value=repr(value))
    return value


def label(value: str, what: str, max_length: int = 255) -> str:
    """Free text of one line (keys, tags): anything printable that every database stores alike."""
    fits = isinstance(value, str) and 0 < len(value) <= max_length and value.isprintable()
    if not fits or value != value.strip():  # some databases ignore space at the end when they compare
        raise InvalidName("label_unreadable", what=what, value=repr(value), most=max_length)
    return value
