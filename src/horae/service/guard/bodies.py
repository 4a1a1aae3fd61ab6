"""Checks of a JSON body before it is parsed.

Each check is a scan in C over at most a few MiB: a parser that meets a hundred thousand brackets, a number of a million
digits or half of a character would fail late, and not always with a readable error.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from itertools import accumulate

from horae.core.jobs.payloads import MAX_DEPTH

# Possessive, and the last quote may be missing: no text makes it go back.
STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
UPS_AND_DOWNS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes: one level deeper, one back
REST = bytes(set(range(256)) - set(b"[]{}"))
CHUNK = 64 * 1024
# Each begins where something begins, so that a long run is read once and not once for each of its bytes.
LONG_NUMBER = re.compile(rb"(?<!\d)\d{400}")
LARGE_NUMBER = re.compile(rb"(?<![\d.])\d[\d.]*+[eE]\+?(?:[3-9]\d\d|\d{4})\d*+")
NOT_NUMBERS = re.compile(rb"NaN|Infinity")
ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*+\\u0000")
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
DEEPEST = MAX_DEPTH + 20  # a payload may be as deep as it may, and stands inside a few brackets of ours


def fault_of(body: bytes) -> str | None:
    """Return what is wrong with a body; None when it can be parsed."""
    if b"\0" in body or ESCAPED_NUL.search(body):
        return "The body contains a NUL character, which databases cannot store as text. Remove it."
    try:
        body.decode()
    except UnicodeDecodeError as problem:
        return f"The body is not UTF-8: byte {problem.start} fits no character."
    bare = STRINGS.sub(b'"', body)
    if bare.count(b"[") + bare.count(b"{") > DEEPEST and is_too_deep(bare):
        return f"The body is nested deeper than {DEEPEST} levels. Flatten it, or send the inner part as a string."
    if NOT_NUMBERS.search(bare):
        return "The body is not JSON: NaN and Infinity are no numbers there. Send null."
    if LONG_NUMBER.search(bare) or any(math.isinf(float(number)) for number in large_numbers(bare)):
        return "The body contains a number that is too large. Send it as a string."
    if SURROGATE.search(body) and has_lone_surrogate(body):
        return "The body contains half of a character (a lone surrogate). Send whole ones."
    return None


def is_too_deep(bare: bytes) -> bool:
    steps = array("b", bare.translate(None, REST).translate(UPS_AND_DOWNS))
    level = 0
    for start in range(0, len(steps), CHUNK):
        levels = list(accumulate(steps[start : start + CHUNK], initial=level))
        if max(levels) > DEEPEST:
            return True
        level = levels[-1]
    return False


def large_numbers(bare: bytes) -> list[bytes]:
    return [number for number in LARGE_NUMBER.findall(bare) if number.count(b".") < 2]


def has_lone_surrogate(body: bytes) -> bool:
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except ValueError:  # not JSON; the parser says where
        return False
    return False
