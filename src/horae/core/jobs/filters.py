"""The filter language: ``queue:mail error:Timeout -state:dead ended:>-2h``, for command line, HTTP and console.

A filter is a list of terms, all of which must hold. A term is ``field:value``; a leading minus excludes. Several values
with commas mean any of them, a star at the end of a text any ending; numbers and times also take ``>``, ``>=``, ``<``,
``<=`` and ``from..to``. An ``error`` is looked for anywhere in the last error of a job, and a ``fingerprint`` is that
of its error group. A text with spaces, commas or quotes stands in double quotes. Times are ISO dates (the whole day),
instants with an offset, ``now``, or spans before and after now: ``-90m``, ``-2h``, ``+7d``.

Parsing turns relative times into instants, so that a parsed filter means the same whenever it is used; ``str()`` writes
it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

from horae.core.dataclass import dataclass
from horae.core.jobs.fingerprints import fingerprint
from horae.core.jobs.job import JOB, PRIORITIES, Filter, Job
from horae.core.time.instants import EPOCH, MICROSECOND, iso, later
from horae.core.time.readings import instant_from
from horae.errors import HoraeError, InvalidFilter

Kind = Literal["choice", "text", "number", "time"]
FIELDS: dict[str, Kind] = {
    "id": "text", "state": "choice", "queue": "text", "handler": "text", "owner": "text", "tag": "text", "key": "text",
    "object": "text", "error": "text", "fingerprint": "text", "priority": "choice", "attempt": "number",
    "created": "time", "due": "time", "ended": "time",
}  # fmt: skip
COMPUTED = ("fingerprint",)  # fields that no table has: a store finds what may fit, and the verb looks again
CHOICES: dict[str, tuple[str, ...]] = {"state": JOB.states, "priority": PRIORITIES}
LONGEST, MOST_TERMS, MOST_VALUES = 2000, 20, 50
_SPAN = re.compile(r"([+-])(\d{1,9})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PLAIN = re.compile(r'[^\s",*\\]+')
_COMPARED = re.compile(r"(>=|<=|>|<)")


@dataclass(frozen=True, slots=True)
class Text:
    """A text to look for: exactly this one, or everything that begins with it."""

    text: str
    is_prefix: bool = False

    def __str__(self) -> str:
        quoted = self.text if _PLAIN.fullmatch(self.text) else _quoted(self.text)
        return quoted + ("*" if self.is_prefix else "")


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A term that holds for any of its texts."""

    field: str
    texts: tuple[Text, ...]
    is_excluded: bool = False

    def __str__(self) -> str:
        return f"{'-' * self.is_excluded}{self.field}:{','.join(map(str, self.texts))}"


@dataclass(frozen=True, slots=True)
class Between:
    """A term that holds from *least* on and before *below*; None means without a bound.

    Numbers are whole; times are microseconds since 1970.
    """

    field: str
    least: int | None
    below: int | None
    is_excluded: bool = False

    def __str__(self) -> str:
        sign = "-" * self.is_excluded
        if self.least is not None and self.below is not None:
            return f"{sign}{self.field}:{self._text(self.least)}..{self._text(self.below - 1)}"
        if self.below is None:
            return f"{sign}{self.field}:>={self._text(self.least or 0)}"
        return f"{sign}{self.field}:<{self._text(self.below)}"

    def _text(self, value: int) -> str:
        return iso(EPOCH + value * MICROSECOND) if FIELDS[self.field] == "time" else str(value)


Term = AnyOf | Between


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A parsed filter; all terms must hold, and none means every job."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def __bool__(self) -> bool:
        return bool(self.terms)


def parse_filter(text: str, *, now: datetime, zone: str = "UTC") -> JobQuery:
    """Read a filter, or raise :class:`InvalidFilter` with the position of the mistake."""
    if len(text) > LONGEST:
        raise InvalidFilter("filter_too_long", expression=text[:50], position=1, most=LONGEST)
    reader = _Reader(text, now, zone)
    terms = tuple(reader.terms())
    if len(terms) > MOST_TERMS:
        raise InvalidFilter("filter_terms_too_many", expression=text, position=1, count=len(terms), most=MOST_TERMS)
    return JobQuery(terms)


def read_frozen(text: str) -> JobQuery:
    """Read a filter that ``str()`` wrote: its times are instants, and it may be longer than a person may write."""
    return JobQuery(tuple(_Reader(text, EPOCH, "UTC").terms()))


class _Reader:
    """Walk over the text of a filter; ``at`` is where the next sign stands."""

    def __init__(self, text: str, now: datetime, zone: str) -> None:
        self.text, self.now, self.zone, self.at = text, now, zone, 0

    def _where(self, at: int) -> dict[str, Any]:
        """Return the facts that every mistake has: the whole text, and the sign, from 1 on, at which it stands."""
        return {"expression": self.text, "position": at + 1}

    def terms(self) -> Iterable[Term]:
        while True:
            while self.at < len(self.text) and self.text[self.at].isspace():
                self.at += 1
            if self.at == len(self.text):
                return
            yield self._term()

    def _term(self) -> Term:
        begins = self.at
        is_excluded = self.text[self.at] == "-"
        self.at += is_excluded
        name = re.compile(r"[a-z_]*").match(self.text, self.at)
        field = name.group() if name else ""
        self.at += len(field)
        if self.text[self.at : self.at + 1] != ":":
            raise InvalidFilter("filter_term_unreadable", found=self._word(begins), **self._where(begins))
        if field not in FIELDS:
            raise InvalidFilter(
                "filter_field_unknown", field=field, choices=list(FIELDS), **self._where(begins + is_excluded)
            )
        self.at += 1
        if FIELDS[field] in ("number", "time"):
            return self._between(field, is_excluded)
        return self._any_of(field, is_excluded)

    def _word(self, at: int) -> str:
        return self.text[at:].split(maxsplit=1)[0][:50]

    def _any_of(self, field: str, is_excluded: bool) -> AnyOf:
        texts = [self._one_text(field)]
        while self.text[self.at : self.at + 1] == ",":
            self.at += 1
            texts.append(self._one_text(field))
        if len(texts) > MOST_VALUES:
            raise InvalidFilter(
                "filter_values_too_many", field=field, count=len(texts), most=MOST_VALUES, **self._where(self.at - 1)
            )
        self._end()
        return AnyOf(field, tuple(texts), is_excluded)

    def _one_text(self, field: str) -> Text:
        begins = self.at
        value = self._quoted() if self.text[self.at : self.at + 1] == '"' else self._unquoted()
        is_prefix = self.text[self.at : self.at + 1] == "*"
        self.at += is_prefix
        if not value:
            raise InvalidFilter("filter_value_missing", field=field, **self._where(begins))
        choices = CHOICES.get(field)
        if choices is not None and (is_prefix or value not in choices):
            found = value + "*" * is_prefix
            raise InvalidFilter(
                "filter_choice_unknown", field=field, found=found, choices=list(choices), **self._where(begins)
            )
        return Text(value, is_prefix)

    def _unquoted(self) -> str:
        found = _PLAIN.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found.group() if found else ""

    def _quoted(self) -> str:
        begins = self.at
        signs: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            sign = self.text[self.at]
            self.at += 1
            if sign == '"':
                return "".join(signs)
            if sign == "\\" and self.at < len(self.text):
                sign = self.text[self.at]
                self.at += 1
            signs.append(sign)
        raise InvalidFilter("filter_quote_open", **self._where(begins))

    def _end(self) -> None:
        if self.at < len(self.text) and not self.text[self.at].isspace():
            raise InvalidFilter("filter_sign_unexpected", found=self.text[self.at], **self._where(self.at))

    def _between(self, field: str, is_excluded: bool) -> Between:
        begins = self.at
        compared = _COMPARED.match(self.text, self.at)
        sign = compared.group() if compared else ""
        self.at += len(sign)
        word = self._unquoted()
        if not word:
            raise InvalidFilter("filter_value_missing", field=field, **self._where(begins))
        self._end()
        begins += len(sign)
        if sign:
            first, beyond = self._value(field, word, begins)
            least = {">": beyond, ">=": first}.get(sign)
            below = {"<": first, "<=": beyond}.get(sign)
            return Between(field, least, below, is_excluded)
        low, dots, high = word.partition("..")
        least, beyond = self._value(field, low, begins)
        if dots:
            _, beyond = self._value(field, high, begins + len(low) + 2)
        if beyond <= least:
            raise InvalidFilter("filter_range_empty", field=field, found=word, **self._where(begins))
        return Between(field, least, beyond, is_excluded)

    def _value(self, field: str, word: str, at: int) -> tuple[int, int]:
        """Return the first value that is meant, and the first after it."""
        if FIELDS[field] == "number":
            if not re.fullmatch(r"\d{1,9}", word):
                raise InvalidFilter("filter_number_unreadable", field=field, found=word, **self._where(at))
            return int(word), int(word) + 1
        try:
            first, beyond = self._time(word)
        except (HoraeError, ValueError, OverflowError):
            raise InvalidFilter("filter_time_unreadable", field=field, found=word, **self._where(at)) from None
        return (first - EPOCH) // MICROSECOND, (beyond - EPOCH) // MICROSECOND

    def _time(self, word: str) -> tuple[datetime, datetime]:
        if word == "now":
            return self.now, later(self.now, MICROSECOND)
        if span := _SPAN.fullmatch(word):
            distance = timedelta(**{_UNITS[span[3]]: int(span[2])})
            moment = self.now - distance if span[1] == "-" else self.now + distance
            return moment, later(moment, MICROSECOND)
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", word):
            day = date.fromisoformat(word)
            return self._midnight(day), self._midnight(day + timedelta(days=1))
        moment = instant_from(word, None).astimezone(UTC)
        return moment, later(moment, MICROSECOND)

    def _midnight(self, day: date) -> datetime:
        """Return when a day begins; where clocks skip midnight, at the first instant after it."""
        for hour in range(4):
            try:
                return instant_from(f"{day.isoformat()}T{hour:02}:00", self.zone)
            except HoraeError:
                continue
        raise ValueError(day)


LIFTED = ("queue", "handler", "owner", "key")  # fields that a Filter has for itself, by which tables are indexed


def narrow(wanted: Filter, query: JobQuery) -> Filter:
    """Return a filter that also wants what a query says, by its own fields where it has them."""
    terms: list[Term] = []
    for term in query.terms:
        if isinstance(term, AnyOf) and not term.is_excluded:
            texts = tuple(text.text for text in term.texts)
            if term.field == "state" and not wanted.states:
                wanted = replace(wanted, states=texts)
                continue
            is_exact = len(texts) == 1 and not term.texts[0].is_prefix
            if term.field in LIFTED and is_exact and getattr(wanted, term.field) is None:
                lifted: dict[str, Any] = {term.field: texts[0]}
                wanted = replace(wanted, **lifted)
                continue
        terms.append(term)
    return replace(wanted, terms=(*wanted.terms, *terms))


def computed(terms: Iterable[Term]) -> JobQuery:
    """Return the terms that no table can answer: :func:`holds` must be asked about what a store found for the rest."""
    return JobQuery(tuple(term for term in terms if term.field in COMPUTED))


def holds(query: JobQuery, job: Job) -> bool:
    """Return whether a job fits a filter; the stores ask their tables the same."""
    return all(_holds(term, job) is not term.is_excluded for term in query.terms)


def _holds(term: Term, job: Job) -> bool:
    if isinstance(term, Between):
        value = _number(term.field, job)
        if value is None:
            return False
        return (term.least is None or term.least <= value) and (term.below is None or value < term.below)
    return any(_fits(term.field, text, value) for text in term.texts for value in _values(term.field, job))


def _number(field: str, job: Job) -> int | None:
    if field == "attempt":
        return job.attempt
    moment = {"created": job.created_at, "due": job.run_at, "ended": job.finished_at}[field]
    return None if moment is None else (moment - EPOCH) // MICROSECOND


def _values(field: str, job: Job) -> Iterable[str]:
    """Return the texts of a job that a term of this field looks at."""
    match field:
        case "tag":
            return job.tags
        case "object":
            kind = job.object_type
            return () if kind is None else (kind, f"{kind}/{job.object_id}")
        case "error":
            value = job.last_error
        case "fingerprint":
            value = job.last_error and fingerprint(job.handler, job.last_error).hash
        case _:
            value = getattr(job, field)
    return (value,) if value else ()


def _fits(field: str, wanted: Text, value: str) -> bool:
    """Return whether a text is the wanted one; an error is long, so it is enough that it contains it."""
    if field == "error":
        return wanted.text in value
    return value.startswith(wanted.text) if wanted.is_prefix else value == wanted.text


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
