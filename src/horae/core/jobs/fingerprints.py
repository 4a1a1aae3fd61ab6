"""Fingerprints of errors: failures with the same cause share one, however their numbers, ids and times differ."""

from __future__ import annotations

import hashlib
import re

from horae.core.dataclass import dataclass

LONGEST_TITLE = 200
_FRAME = re.compile(r'^ *File "([^"\n]+)", line \d+, in (\S+)', re.MULTILINE)
_KIND = re.compile(r"[A-Za-z_][\w.]*")
# What differs from one failure to the next, in the order in which it is replaced.
_VARIABLE = (
    (re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"), "<id>"),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b"), "<mail>"),
    (re.compile(r"'[^'\n]*'|\"[^\"\n]*\""), "<text>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b"), "<id>"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "<n>"),
)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What failures with the same cause have in common."""

    hash: str
    kind: str  # the type of the error; empty where the text does not say
    title: str  # the first line, with what varies replaced
    where: str  # the function in which it was raised; empty where the text does not say


def fingerprint(handler: str, error: str) -> Fingerprint:
    """Return the fingerprint of a failed run by its handler and its error, as runs keep it.

    The line numbers of a traceback do not count, so that an edit elsewhere in a file does not split a group.
    """
    line = error.strip().partition("\n")[0]
    kind, colon, message = line.partition(": ")
    if not colon or not _KIND.fullmatch(kind):
        kind, message = (line, "") if _KIND.fullmatch(line) else ("", line)
    title = normalize(message)
    where = _raised_in(error)
    text = "\n".join((handler, kind, title, where))
    heading = f"{kind}: {title}" if kind and title else kind or title
    return Fingerprint(
        hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32], kind, heading[:LONGEST_TITLE], where
    )


def normalize(message: str) -> str:
    """Replace what differs from one failure to the next: numbers, ids, times, quoted texts."""
    for pattern, word in _VARIABLE:
        message = pattern.sub(word, message)
    return " ".join(message.split())[:LONGEST_TITLE]


def _raised_in(error: str) -> str:
    """Return the last frame of the traceback as ``file:function``, the file without its folders."""
    frames = _FRAME.findall(error)
    if not frames:
        return ""
    path, function = frames[-1]
    name = path.replace("\\", "/").rpartition("/")[2]
    return f"{name}:{function}"
