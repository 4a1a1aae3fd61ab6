"""Groups of errors: failures of one owner with the same fingerprint."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from horae.core.dataclass import dataclass
from horae.core.jobs.filters import AnyOf, JobQuery, Text
from horae.core.jobs.fingerprints import Fingerprint, fingerprint
from horae.core.jobs.masking import mask_text

MOST_GROUPS = 1000  # in one minute; the rest is counted as one group of its owner
LONGEST_MESSAGE = 500
OTHER = "other"  # the fingerprint of that group
KEPT_DAYS = 400  # a group that was not seen for so long is removed, and so is what was counted on a day


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures with the same cause, as stored."""

    owner: str
    fingerprint: str
    handler: str
    kind: str  # the type of the error; empty where its text does not say
    title: str
    raised_in: str  # file and function; empty where the text does not say
    message: str  # of the latest one, with secrets masked
    count: int
    first_seen: datetime
    last_seen: datetime
    sample_job: int  # the latest attempt that failed so
    sample_token: int
    first_release: str | None = None
    last_release: str | None = None
    muted_at: datetime | None = None
    muted_until: datetime | None = None  # with muted_at: when that ends; None: when it is unmuted
    muted_by: str | None = None
    mute_reason: str | None = None

    def is_muted(self, now: datetime) -> bool:
        """Return whether it is muted; a group that grows stays so."""
        return self.muted_at is not None and (self.muted_until is None or now < self.muted_until)


def dead_jobs_of(owner: str, handler: str, fingerprint: str) -> str:
    """Return the filter in words for the dead jobs of a group; a job belongs to it by its last error."""
    values = {"state": "dead", "owner": owner, "handler": handler, "fingerprint": fingerprint}
    return str(JobQuery(tuple(AnyOf(name, (Text(value),)) for name, value in values.items())))


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt, as the store reads it."""

    minute: int
    owner: str
    handler: str
    error: str
    job_number: int
    token: int
    finished_at: datetime
    worker_id: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What one minute adds to a group."""

    owner: str
    fingerprint: str
    handler: str
    kind: str
    title: str
    raised_in: str
    message: str
    count: int
    first: Failure
    last: Failure


def group(failures: Iterable[Failure], most: int = MOST_GROUPS) -> dict[int, dict[tuple[str, str], Seen]]:
    """Return by minute what each group grows by, by owner and fingerprint."""
    found: dict[int, dict[tuple[str, str], list[Failure]]] = {}
    prints: dict[tuple[str, str], Fingerprint] = {}  # the same error comes often
    firsts: dict[tuple[str, str], Fingerprint] = {}
    counts: dict[tuple[int, str, str], int] = {}
    for each in failures:
        text = (each.handler, each.error)
        if text not in prints:
            if len(prints) >= most:
                prints.clear()
            prints[text] = fingerprint(*text)
        mark = prints[text]
        key = (each.owner, mark.hash)
        firsts.setdefault(key, mark)
        ends = found.setdefault(each.minute, {}).setdefault(key, [each, each])
        if each.finished_at < ends[0].finished_at:
            ends[0] = each
        if each.finished_at >= ends[1].finished_at:
            ends[1] = each
        counts[each.minute, *key] = counts.get((each.minute, *key), 0) + 1
    return {
        minute: _limited(
            [_seen(firsts[key], counts[minute, *key], *ends) for key, ends in groups.items()], most
        )
        for minute, groups in found.items()
    }  # fmt: skip


def _seen(mark: Fingerprint, count: int, first: Failure, last: Failure) -> Seen:
    line = last.error.strip().partition("\n")[0]
    return Seen(
        last.owner, mark.hash, last.handler, mark.kind[:255], mask_text(mark.title), mark.where[:255],
        mask_text(line)[:LONGEST_MESSAGE], count, first, last,
    )  # fmt: skip


def _limited(seen: list[Seen], most: int) -> dict[tuple[str, str], Seen]:
    """Keep the largest groups, and join the rest of each owner: an error that is always new must not fill a table."""
    seen.sort(key=lambda each: (-each.count, each.owner, each.fingerprint))
    kept = {(each.owner, each.fingerprint): each for each in seen[:most]}
    for each in seen[most:]:
        key = (each.owner, OTHER)
        before = kept.get(key)
        first = each.first if before is None else min(before.first, each.first, key=lambda one: one.finished_at)
        last = each.last if before is None else max(before.last, each.last, key=lambda one: one.finished_at)
        count = each.count + (0 if before is None else before.count)
        title = "errors of too many kinds to tell apart"
        kept[key] = Seen(each.owner, OTHER, "", "", title, "", each.message, count, first, last)
    return kept


def grown(before: ErrorGroup | None, seen: Seen, by: int, release: dict[str, str]) -> ErrorGroup:
    """Return a group after one more minute, of which *by* failures were not counted before."""
    first, last = (release.get(each.worker_id or "") for each in (seen.first, seen.last))
    if before is None:
        return ErrorGroup(
            seen.owner, seen.fingerprint, seen.handler, seen.kind, seen.title, seen.raised_in, seen.message, by,
            seen.first.finished_at, seen.last.finished_at, seen.last.job_number, seen.last.token, first, last,
        )  # fmt: skip
    newer = seen.last.finished_at >= before.last_seen
    latest = seen.last if newer else None
    return ErrorGroup(
        before.owner,
        before.fingerprint,
        before.handler,
        before.kind,
        before.title,
        before.raised_in,
        seen.message if newer else before.message,
        before.count + by,
        min(before.first_seen, seen.first.finished_at),
        max(before.last_seen, seen.last.finished_at),
        before.sample_job if latest is None else latest.job_number,
        before.sample_token if latest is None else latest.token,
        first if seen.first.finished_at < before.first_seen and first else before.first_release,
        last if newer and last else before.last_release,
        before.muted_at,
        before.muted_until,
        before.muted_by,
        before.mute_reason,
    )
