"""What needs a person, as codes with facts: the worst first, each with where to look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

from horae.core.dataclass import dataclass
from horae.core.error_groups import ErrorGroup
from horae.core.jobs.reasons import Reason

NeedLevel = Literal["problem", "warning", "question"]
MOST = 10_000  # things are counted no further
MOST_NAMED = 5


class Figures(Protocol):
    """What is known of an installation: counts up to ``MOST`` and one more, and names."""

    @property
    def late(self) -> int: ...
    @property
    def dead(self) -> int: ...
    @property
    def stuck(self) -> int: ...
    @property
    def unserved(self) -> Sequence[str]: ...
    @property
    def paused(self) -> Sequence[str]: ...
    @property
    def overdue_schedules(self) -> Sequence[str]: ...
    @property
    def missed_schedules(self) -> Sequence[str]: ...
    @property
    def missed_jobs(self) -> Sequence[str]: ...
    @property
    def inactive_schedules(self) -> Sequence[str]: ...
    @property
    def new_errors(self) -> Sequence[ErrorGroup]: ...
    @property
    def confirmations(self) -> int: ...
    @property
    def reviews(self) -> int: ...
    @property
    def has_jobs(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that needs a person, how bad it is, and the room and filter that show it."""

    why: Reason
    level: NeedLevel
    room: str
    filter: str = ""


def needs_of(seen: Figures) -> tuple[Need, ...]:
    """Return what needs a person, the worst first."""
    return tuple(_needs(seen))


def health_of(seen: Figures, needs: Sequence[Need]) -> Reason:
    """Return how all is, in one sentence."""
    if not needs:
        return Reason("well", "all_well") if seen.has_jobs else Reason("ready", "nothing_ran_yet")
    code = "trouble" if any(need.level == "problem" for need in needs) else "needs_you"
    if len(needs) == 1:
        return Reason(code, "one_thing_needs_you")
    return Reason(code, "things_need_you", {"count": len(needs)})


def _needs(seen: Figures) -> Iterator[Need]:
    if seen.unserved:
        facts = _named(seen.unserved)
        yield Need(Reason("unserved", "queues_unserved", facts), "problem", "jobs", "state:queued due:<=-1m")
    if seen.stuck:
        yield Need(Reason("stuck", "jobs_stuck", _counted(seen.stuck)), "problem", "jobs", "state:running")
    if seen.overdue_schedules:
        facts = _named(seen.overdue_schedules)
        yield Need(Reason("overdue", "schedules_overdue", facts), "problem", "schedules")
    if seen.missed_schedules:
        yield Need(Reason("missed", "runs_missing", _named(seen.missed_schedules)), "problem", "schedules")
    if seen.missed_jobs:
        yield Need(Reason("missed", "expected_jobs_missing", _named(seen.missed_jobs)), "problem", "jobs")
    if seen.dead:
        yield Need(Reason("dead", "jobs_dead", _counted(seen.dead)), "problem", "jobs", "state:dead")
    if seen.new_errors:
        facts = _named([each.title for each in seen.new_errors])
        yield Need(Reason("new_errors", "errors_new", facts), "warning", "errors")
    if seen.late and not seen.unserved:
        late = Reason("late", "jobs_late", _counted(seen.late))
        yield Need(late, "warning", "jobs", "state:queued due:<=-1m")
    if seen.inactive_schedules:
        facts = _named(seen.inactive_schedules)
        yield Need(Reason("inactive", "schedules_inactive", facts), "warning", "schedules")
    if seen.confirmations:
        asked = Reason("confirmations", "confirmations_open", _counted(seen.confirmations))
        yield Need(asked, "question", "attention")
    if seen.reviews:
        yield Need(Reason("reviews", "reviews_open", _counted(seen.reviews)), "question", "governance", "state:open")
    if seen.paused:
        yield Need(Reason("paused", "queues_paused", _named(seen.paused)), "warning", "queues")


def _counted(count: int) -> dict[str, int | str]:
    return {"count": count, "shown": f"{count:,}" if count <= MOST else f"{MOST:,}+"}


def _named(names: Sequence[str]) -> dict[str, int | list[str]]:
    return {"count": len(names), "names": list(names[:MOST_NAMED])}
