"""Trace ids: what joins an enqueue, its runs and what they call, after W3C Trace Context.

A job keeps one text of up to 64 characters: a label of the caller's own, a trace id (32 hexadecimal digits), or the
whole ``traceparent`` of what enqueued it, so that a run can be shown as its child. People and URLs see the trace id.
"""

from __future__ import annotations

import hashlib
import re

from horae.core.dataclass import dataclass

_PARENT = re.compile(r"00-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})")
_TRACE = re.compile(r"(?!0{32})[0-9a-f]{32}")
SAMPLED = 1


@dataclass(frozen=True, slots=True)
class Parent:
    """The position of a run in its trace."""

    trace_id: str
    span_id: str
    flags: int = SAMPLED

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def parent_of(text: str | None) -> Parent | None:
    """Read a ``traceparent``; None for any other text. A later version is read as far as this one reaches."""
    header = text.strip() if text else ""
    if len(header) > 55 and header[2:3] == "-" and header[55:56] == "-" and not header.startswith(("00", "ff")):
        header = "00" + header[2:55]
    found = _PARENT.fullmatch(header)
    return None if found is None else Parent(found[1], found[2], int(found[3], 16))


def trace_id_of(text: str | None) -> str | None:
    """Return the part of a job's trace text that people see."""
    parent = parent_of(text)
    return text if parent is None else parent.trace_id


def trace_link(template: str, text: str | None) -> str | None:
    """Return the page of a job's trace; None without a template, and for a label of the caller's own."""
    trace_id = trace_id_of(text)
    return template.replace("{trace_id}", trace_id) if template and trace_id and _TRACE.fullmatch(trace_id) else None


def origin_of(text: str | None) -> Parent | None:
    """Return the parent of a job's runs: what enqueued it, or, for a bare trace id, one point of its own."""
    if text and _TRACE.fullmatch(text):
        return Parent(text, hashlib.sha256(text.encode()).hexdigest()[:16])
    return parent_of(text)
