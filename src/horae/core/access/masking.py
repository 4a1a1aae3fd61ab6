"""Hide secrets in a text, also encoded ones.

The text is looked at as it is and through *views*: percent-decoded, with the escapes of JSON strings undone, both in
turn (JSON within JSON, a URL within JSON), and without white space. In each view every form of every secret is looked
for: plain, and as Base64 in both alphabets at each of the three places where it may begin in a group. Where half of a
form or more is found the secret was cut in two, so the other part is hidden as well. Whatever is found in a view is
hidden in the text itself.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from horae.core.dataclass import dataclass

MASK = "…"
SHORTEST = 8  # bytes of a form; shorter ones are words
SHORTEST_PART = 4  # bytes of a part of a form that was cut
WINDOWED = 16  # up to so many bytes, a part is looked for at each of its places; a longer one by its blocks
DEEPEST = 3  # how often a text may have been encoded, one time over the other
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_ESCAPE = re.compile(
    rb'\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(["\\/bfnrt]))'
)
_SPACE = re.compile(rb"[ \t\r\n]+")
_CUT = re.compile(rb"(?:%[0-9A-Fa-f]?|\\(?:u[0-9a-fA-F]{0,3})?|\xef\xbf\xbd)*\Z")  # what a cut leaves of an escape
LONGEST_CUT = 12
MOST_FOUND = 2000  # places; no honest answer repeats a secret so often
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
Span = tuple[int, int]


class TooTangled(Exception):
    """So much of the text looks like a secret that finding out what is one would take too long."""


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return the text without these secrets, also where they are encoded or cut in two."""
    forms = {form: may_be_cut for secret in secrets for form, may_be_cut in _forms(secret)}
    data = text.encode("utf-8", "surrogatepass")
    try:
        spans = list(_find_form(View(data), forms)) if forms else []
    except TooTangled:
        return MASK
    return _mask(data, spans).decode("utf-8", "surrogatepass")


# -- views ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """A text with some of its encoding undone, and which pieces of it were encoded."""

    data: bytes
    source: View | None = None
    starts: Sequence[int] = ()  # where each decoded piece begins,
    pieces: Sequence[tuple[int, int, int]] = ()  # where it ends, and from where to where it stands in the source

    def origin(self, span: Span) -> Span:
        """Return the bytes of the original text that a span comes from, an escape always as a whole."""
        if self.source is None:
            return span
        return self.source.origin((self._origin(span[0])[0], self._origin(span[1] - 1)[1]))

    def _origin(self, at: int) -> Span:
        """Return where one byte comes from."""
        which = bisect_right(self.starts, at) - 1
        if which < 0:
            return at, at + 1
        end, source, source_end = self.pieces[which]
        if at < end:
            return source, source_end
        return source_end + at - end, source_end + at - end + 1


def _views(view: View, deep: int = 0) -> Iterator[View]:
    """Return the text itself, and every way of undoing what encodings it shows."""
    yield view
    squeezed = _decode(view, _SPACE, lambda _: b"")
    if squeezed is not None:
        yield squeezed
    for pattern, decode in ((_PERCENT, _percent), (_ESCAPE, _escape)) if deep < DEEPEST else ():
        inner = _decode(view, pattern, decode)
        if inner is not None:
            yield from _views(inner, deep + 1)


def _decode(view: View, pattern: re.Pattern[bytes], decode: Callable[[re.Match[bytes]], bytes]) -> View | None:
    """Return the view with one encoding undone; None where there is nothing to undo."""
    parts: list[bytes] = []
    starts: list[int] = []
    pieces: list[tuple[int, int, int]] = []
    data, size, last = view.data, 0, 0
    for found in pattern.finditer(data):
        start, end = found.span()
        piece = decode(found)
        size += start - last
        parts += (data[last:start], piece)
        starts.append(size)
        size += len(piece)
        pieces.append((size, start, end))
        last = end
    return View(b"".join((*parts, data[last:])), view, starts, pieces) if parts else None


def _percent(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)])


def _escape(found: re.Match[bytes]) -> bytes:
    high, low, code, letter = found.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    number = int(code, 16) if code is not None else 0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
    return chr(number).encode("utf-8", "surrogatepass")


# -- forms ---------------------------------------------------------------------------------------------------------


def _forms(secret: str) -> Iterator[tuple[bytes, bool]]:
    """Return what to look for: the secret, its words, the path of a URL; each as it is, without spaces, and as Base64.

    And whether it may have been cut in two: of ``Bearer 5f3a9c1e`` only the second word may, or every ``Bearer`` would
    be taken for a part of it.
    """
    words = [word for word in secret.split() if len(word) >= SHORTEST]
    path = secret.partition("://")[2].partition("/")[2]
    for part in (secret, *words, path):
        plain = part.encode("utf-8", "surrogatepass")
        may_be_cut = part is not secret or not words or words == [secret]
        for form in (plain, plain.replace(b" ", b"+"), _SPACE.sub(b"", plain), *_base64(plain)):
            if len(form) >= SHORTEST:
                yield form, may_be_cut


def _base64(plain: bytes) -> Iterator[bytes]:
    """Return the letters that stand in any Base64 of a text that holds this; without those its neighbours share."""
    for before in range(3):
        letters = base64.b64encode(bytes(before) + plain)[(8 * before + 5) // 6 : 8 * (before + len(plain)) // 6]
        yield letters
        yield letters.translate(_URL_SAFE)


# -- finding -------------------------------------------------------------------------------------------------------


def _find_form(text: View, forms: Mapping[bytes, bool]) -> Iterator[Span]:
    """Return where a form stands in the text: whole, in parts, or cut off at one of its ends."""
    patience = Patience()
    for view in _views(text):
        cut = _CUT.search(view.data, max(0, len(view.data) - LONGEST_CUT))
        ending = len(view.data) if cut is None else cut.start()
        for form, may_be_cut in forms.items():
            matches = _parts(view.data, form, ending, patience) if may_be_cut else _whole(view.data, form, patience)
            yield from map(view.origin, matches)


def _whole(data: bytes, form: bytes, patience: Patience) -> Iterator[Span]:
    at = data.find(form)
    while at >= 0:
        patience.spend()
        yield at, at + len(form)
        at = data.find(form, at + 1)


def _parts(data: bytes, form: bytes, ending: int, patience: Patience) -> Iterator[Span]:
    others: set[bytes] = set()
    for start, end, at in _runs(data, form, patience):
        yield at, at + end - start
        others |= {part for part in (form[:start], form[end:]) if len(part) >= SHORTEST_PART}
    for part in others:
        yield from _whole(data, part, patience)
    head = _overlap(data[:ending], form)
    if head >= SHORTEST_PART:
        yield ending - head, len(data)
    tail = _overlap(form, data)
    if tail >= SHORTEST_PART:
        yield 0, tail


def _runs(data: bytes, form: bytes, patience: Patience) -> Iterator[tuple[int, int, int]]:
    """Find stretches of the form, half of it or longer, in the data; each as far as it reaches."""
    least = max(SHORTEST_PART, (len(form) + 1) // 2)
    # Whatever is twice as long as a block, less one, holds a whole one of those that the form is cut into.
    block, step = (least, 1) if least <= WINDOWED else ((least + 1) // 2, (least + 1) // 2)
    for offset in range(0, len(form) - block + 1, step):
        piece, at = form[offset : offset + block], 0
        while (at := data.find(piece, at)) >= 0:
            patience.spend()
            before = _common(form[:offset][::-1], data[max(0, at - offset) : at][::-1])
            after = _common(form[offset + block :], data[at + block : at + len(form) - offset])
            if before + block + after >= least:
                yield offset - before, offset + block + after, at - before
            at += max(1, after)


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _overlap(text: bytes, following: bytes) -> int:
    """Return how many bytes at the end of a text are the beginning of another."""
    for size in range(min(len(text), len(following)), 0, -1):
        if text.endswith(following[:size]):
            return size
    return 0


class Patience:
    """A budget of matches: limits the work on texts that are made to match very often."""

    def __init__(self, left: int = MOST_FOUND) -> None:
        self._left = left

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooTangled


def _mask(data: bytes, spans: Iterable[Span]) -> bytes:
    """Replace each stretch by one mask, however many forms were found in it."""
    kept, last = [], -1
    for start, end in sorted(spans):
        if start > last:
            kept += [data[max(last, 0) : start], MASK.encode()]
        last = max(last, end)
    return b"".join([*kept, data[max(last, 0) :]])
