"""Pages of jobs: along the map of labels, along the ends of jobs, or over a bounded number of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from horae.core.jobs.job import Filter, Job
from horae.core.time.instants import micros

if TYPE_CHECKING:
    from horae.ports.jobs import End
    from horae.ports.store import Tx

LOOK_BACK = 20_000  # rows that one page of a list looks at where nothing leads to what it wants
LOOK_ALONG = 5_000  # jobs that one page looks at along a label: they are fetched one by one
LOOK_AT_ONCE = 500  # rows of them that are read into memory at once


def page(tx: Tx, wanted: Filter, limit: int, before: int | None) -> tuple[list[Job], int | None]:
    """Return the jobs of one page, the newest first, and the number before which the next begins; None at the end.

    A page may be short, or empty, although older jobs fit: it looks at a bounded number of them.
    """
    if not wanted.needs_bound:
        return look(tx, wanted, limit, before, None)
    from horae.core.jobs.labels import leading_label  # a list without a filter does not need it

    label = leading_label(wanted)
    if label is None:
        return look(tx, wanted, limit, before, tx.jobs.look_back(LOOK_BACK, before=before))
    labelled, found = tx.labels.state().labelled, list[Job]()
    if before is None or before > labelled:  # jobs that the map does not reach yet
        least = tx.jobs.look_back(LOOK_BACK, before=before, least=labelled) or labelled
        found, further = look(tx, wanted, limit, before, least)
        if len(found) == limit or least > labelled:
            return found, further
        before = labelled
    fits = _asked_of_jobs(wanted) or (lambda job: True)
    looked, at_once = 0, limit
    while looked < LOOK_ALONG:
        numbers = tx.labels.members(label, before=before, limit=at_once)[:at_once]
        if not numbers:
            return found, None
        found += filter(fits, tx.jobs.find_among(wanted, numbers))
        if len(found) >= limit:
            return found[:limit], found[limit - 1].number
        before, looked, at_once = numbers[-1], looked + len(numbers), min(4 * at_once, LOOK_AT_ONCE)
    return found, before


def is_by_end(wanted: Filter) -> bool:
    """Return whether a filter names a time of end, and nothing else leads to what it wants."""
    if not wanted.terms:
        return False
    from horae.core.jobs.labels import leading_label

    return _ended_since(wanted) is not None and leading_label(wanted) is None


def page_by_end(tx: Tx, wanted: Filter, limit: int, before: End | None) -> tuple[list[Job], End | None]:
    """Return the jobs of one page, those that ended last first, and the place before which the next begins."""
    fits, since = _asked_of_jobs(wanted), _ended_since(wanted) or 0
    least = None if len(wanted.terms) == 1 else tx.jobs.look_back_ends(LOOK_BACK, since, before=before)
    found = tx.jobs.find_by_end(wanted, limit=limit if fits is None else LOOK_AT_ONCE, before=before, least=least)
    is_full = len(found) == (limit if fits is None else LOOK_AT_ONCE)
    further = _end(found[-1]) if is_full else None if least is None else (least, 0)
    fitting = found if fits is None else [job for job in found if fits(job)]
    return fitting[:limit], _end(fitting[limit - 1]) if len(fitting) > limit else further


def _end(job: Job) -> End:
    assert job.finished_at is not None
    return micros(job.finished_at), job.number


def _ended_since(wanted: Filter) -> int | None:
    """Return from when on a filter wants jobs to have ended; None where it does not say."""
    from horae.core.jobs.filters import Between

    spans = [term for term in wanted.terms if isinstance(term, Between) and term.field == "ended"]
    return max((span.least or 0 for span in spans if not span.is_excluded), default=None)


def look(tx: Tx, wanted: Filter, limit: int, before: int | None, least: int | None) -> tuple[list[Job], int | None]:
    """Return the jobs of one page in the order of their numbers, and the number before which the next begins.

    What the tables cannot answer is asked of the jobs themselves, for a bounded number of them.
    """
    fits = _asked_of_jobs(wanted)
    if fits is None:
        found = tx.jobs.find(wanted, limit=limit, before=before, least=least)
        return found, found[-1].number if len(found) == limit else least
    fitting: list[Job] = []
    for _ in range(LOOK_BACK // LOOK_AT_ONCE):
        page = tx.jobs.find(wanted, limit=LOOK_AT_ONCE, before=before, least=least)
        fitting += [job for job in page if fits(job)]
        if len(fitting) >= limit:
            return fitting[:limit], fitting[limit - 1].number
        if len(page) < LOOK_AT_ONCE:
            return fitting, least
        before = page[-1].number
    return fitting, before


def _asked_of_jobs(wanted: Filter) -> Callable[[Job], bool] | None:
    """Return what is asked of each job because the tables cannot answer it; None where they answer all."""
    if not wanted.terms:
        return None
    from horae.core.jobs.filters import computed, holds  # a list without a filter does not need the language

    query = computed(wanted.terms)
    return partial(holds, query) if query else None
