"""Filters as text: take a term out, put one in. The text itself is read by the core alone."""

from __future__ import annotations

import re

from horae.core.cluster.numbers import job_id, read_number

_TERM = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+')
_PLAIN = re.compile(r'[^\s",*\\:()]+')
JOB = re.compile(r"(?:job_)?((?:\d{1,4}x)?\d{1,19})", re.ASCII)


def terms_of(text: str) -> list[str]:
    """Return the terms of a filter as they are written; a quoted text stays whole."""
    return _TERM.findall(text)


def field_of(term: str) -> str:
    """Return the field of a term, without the minus that excludes; empty for a bare word."""
    name, colon, _ = term.removeprefix("-").partition(":")
    return name if colon else ""


def without(text: str, field: str) -> str:
    """Return a filter without the terms of a field."""
    return " ".join(term for term in terms_of(text) if field_of(term) != field)


def with_term(text: str, field: str, value: str) -> str:
    """Return a filter in which a field has one value, in place of the terms that it had."""
    return f"{without(text, field)} {field}:{quoted(value)}".strip()


def value_of(text: str, field: str) -> str | None:
    """Return the value of a field where a filter names exactly one and excludes none."""
    found = [term for term in terms_of(text) if field_of(term) == field]
    if len(found) != 1 or found[0].startswith("-"):
        return None
    value = found[0].partition(":")[2]
    return value[1:-1].replace('\\"', '"') if len(value) > 1 and value[0] == value[-1] == '"' else value


def bare_words(text: str) -> list[str]:
    """Return the words of a filter that name no field."""
    return [term for term in terms_of(text) if not field_of(term)]


def quoted(value: str) -> str:
    """Return a value as a filter writes it."""
    if _PLAIN.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def job_named(text: str) -> str | None:
    """Return the id of a job where the text is one, such as ``job_12`` or ``12``."""
    found = JOB.fullmatch(text.strip())
    number = None if found is None else read_number(found[1])
    return None if number is None else job_id(number)
