"""Decide about a due schedule: which fires run, which are skipped or merged, and when the next is due.

Deciding is pure: from a schedule, the time, and what of it is still unfinished follow the fires to record, the jobs to
run, and the next instant. Whatever the policies say, the counts of the records add up to the fires that have come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from horae.core.schedules.rules import Every, Rule
from horae.core.schedules.schedule import Fire, Firing, Schedule, Unfinished, Verdict, due_at, first_fire, next_fire
from horae.core.time.instants import later
from horae.core.time.zones import SECOND
from horae.errors import InvalidInput

MOST_RECORDED = 2**31 - 1  # what the column of a record can hold: three weeks of milliseconds


def decide(schedule: Schedule, now: datetime, unfinished: Unfinished, roll: float) -> Firing:
    """Decide what becomes of a schedule whose next fire has come."""
    first = schedule.next_fire_at
    assert first is not None
    count, recent = _find_missed(schedule, first, now)
    silent = _find_silent(schedule, unfinished, now)
    if silent:
        unfinished = replace(unfinished, running=tuple(job for job in unfinished.running if job not in silent))
    fires = _apply_misfire(schedule, first, recent, count, now, roll)
    if schedule.overlap != "allow":
        fires = _apply_overlap(schedule, fires, unfinished)
    fires = _apply_max_fires(schedule, fires)
    ran = _count_runs(fires)
    fire_count, follows = schedule.fire_count + ran, None
    if not schedule.is_spent_after(fire_count) and not (schedule.rests and ran):
        follows = next_fire(schedule, max(recent[-1], now) if schedule.rests else recent[-1])
    dropped = tuple(unfinished.retrying) if ran and schedule.overlap != "allow" else ()
    return Firing(schedule, tuple(fires), follows, due_at(schedule, follows, roll), fire_count, dropped, silent)


def drop_recorded(firing: Firing, recorded: Container[datetime]) -> Firing:
    """Return the same decision without the occurrences that are on record already."""
    kept = tuple(fire for fire in firing.fires if fire.fire_at not in recorded)
    if len(kept) == len(firing.fires):
        return firing
    fire_count = firing.fire_count - _count_runs(firing.fires) + _count_runs(kept)
    kept_firing = replace(firing, fires=kept, fire_count=fire_count)
    if firing.schedule.rests and not _count_runs(kept) and not firing.schedule.is_spent:
        follows = next_fire(firing.schedule, firing.fires[-1].fire_at)  # no job will come to an end and say so
        kept_firing = replace(kept_firing, next_fire_at=follows, next_due_at=follows)
    return kept_firing


def _count_runs(fires: Iterable[Fire]) -> int:
    return sum(fire.verdict == "ran" for fire in fires)


def record_undecided(schedule: Schedule, now: datetime, reason: str) -> Fire | None:
    """Record, in one fire, those that came due but were not decided on before the schedule changed."""
    first = schedule.next_fire_at
    if first is None or first > now:
        return None
    try:
        count, recent = _find_missed(schedule, first, now)
    except InvalidInput:  # the rule can no longer be read, which may be what the change is about
        return Fire(first, "skipped", reason=reason)
    last_at = recent[-1] if count > 1 else None
    return Fire(first, "skipped", reason=reason, last_at=last_at, count=min(count, MOST_RECORDED))


def upcoming_fires(schedule: Schedule, now: datetime) -> Iterator[datetime]:
    """Yield the fires ahead as they will run; those that are due already as their policy will decide."""
    stored = schedule.next_fire_at if schedule.number and schedule.is_active else None
    fire = stored or first_fire(schedule, now)
    if fire is not None and max(fire, (schedule.next_due_at if stored else None) or fire) <= now:
        firing = decide(replace(schedule, next_fire_at=fire), now, Unfinished(), 0.0)
        ran = [each.fire_at for each in firing.fires if each.verdict == "ran"]
        yield from ran
        fire = next_fire(schedule, now) if schedule.rests and ran else firing.next_fire_at
    while fire is not None:
        yield fire
        fire = next_fire(schedule, fire)


def admits(schedule: Schedule, unfinished: Unfinished) -> bool:
    """Return whether a run by hand may join what is unfinished; it does not push a waiting retry aside."""
    if schedule.overlap == "allow":
        return True
    waiting = bool(unfinished.waiting or unfinished.retrying or unfinished.locked_out)
    return not waiting if schedule.overlap == "queue_one" else not (waiting or unfinished.running)


def _find_silent(schedule: Schedule, unfinished: Unfinished, now: datetime) -> tuple[int, ...]:
    """Return running jobs that have reported no progress for longer than the schedule allows."""
    allowed = schedule.stale_timeout
    if allowed is None:
        return ()
    return tuple(job for job in unfinished.running if now - unfinished.seen_at.get(job, now) > allowed)


def _find_missed(schedule: Schedule, first: datetime, now: datetime) -> tuple[int, tuple[datetime, ...]]:
    """Return how many fires lie between the first and now, and the last few of them: one more than may run."""
    rule = schedule.rule
    if rule is None or schedule.rests or schedule.kind == "once":
        return 1, (first,)
    until = now if schedule.ends_at is None else min(now, schedule.ends_at)
    runs = schedule.catch_up if schedule.misfire == "catch_up" else 1
    return _count_cached(rule, first, until, runs + 1)


@lru_cache(maxsize=4096)
def _count_cached(rule: Rule, first: datetime, until: datetime, keep: int) -> tuple[int, tuple[datetime, ...]]:
    """Count, cached: thousands of schedules may share a rule and have missed the same time."""
    if isinstance(rule, Every):
        beyond = max(0, (until - first) // rule.period)
        kept = range(max(0, beyond - keep + 1), beyond + 1)
        return beyond + 1, tuple(first + index * rule.period for index in kept)
    count = 1 + rule.count(first, until)
    if count <= keep:
        return count, (first, *rule.between(first, until))
    return count, _last_fires(rule, first, until, keep)


def _last_fires(rule: Rule, after: datetime, until: datetime, keep: int) -> tuple[datetime, ...]:
    """Return the last *keep* fires of a range that has at least so many.

    Counting is quick and walking is not, so bisection finds where the last ones begin.
    """
    too_late = until
    while too_late - after > SECOND:
        middle = after + (too_late - after) / 2
        if rule.count(middle, until) >= keep:
            after = middle
        else:
            too_late = middle
    return tuple(deque(rule.between(after, until), maxlen=keep))


def _apply_misfire(
    schedule: Schedule, first: datetime, recent: tuple[datetime, ...], count: int, now: datetime, roll: float
) -> list[Fire]:
    """Return which of the fires that have come are run, and what is recorded of the others."""
    last = recent[-1]
    if schedule.misfire == "catch_up" and count > 1:
        kept = recent[-schedule.catch_up :]
        step = schedule.spread / len(kept)
        runs = [Fire(fire, "ran", due_at=now + step * index) for index, fire in enumerate(kept)]
        return [*_record_earlier(first, recent, count, len(kept), "skipped", None), *runs]
    due = _due_at(schedule, last, count, roll)
    if schedule.misfire == "skip":
        run = Fire(last, "ran", due_at=due)
        if now - max(due, last) > schedule.grace:
            run = Fire(last, "skipped", reason="misfire")
        return [*_record_earlier(first, recent, count, 1, "skipped", None), run]
    return [*_record_earlier(first, recent, count, 1, "merged", last), Fire(last, "ran", due_at=due)]


def _due_at(schedule: Schedule, last: datetime, count: int, roll: float) -> datetime:
    """Return when the job of the last fire may run: by its stored jitter, or by one drawn now."""
    due = schedule.next_due_at
    if count > 1 or due is None or due < last:
        return last
    undrawn = due == last and (schedule.rests or schedule.kind == "after")
    return later(last, schedule.jitter * roll) if undrawn else due


def _record_earlier(
    first: datetime, recent: tuple[datetime, ...], count: int, kept: int, verdict: Verdict, into: datetime | None
) -> list[Fire]:
    """Make one record of all the fires before those that are kept."""
    missed = count - kept
    if missed < 1:
        return []
    last_at = recent[-kept - 1] if missed > 1 else None
    count = min(missed, MOST_RECORDED)
    return [Fire(first, verdict, reason="misfire", last_at=last_at, count=count, merged_into=into)]


def _apply_max_fires(schedule: Schedule, fires: list[Fire]) -> list[Fire]:
    """Skip runs beyond those that the schedule may still have."""
    if schedule.max_fires is None:
        return fires
    left, decided = schedule.max_fires - schedule.fire_count, []
    for fire in fires:
        if fire.verdict == "ran":
            left -= 1
        decided.append(
            fire if fire.verdict != "ran" or left >= 0 else Fire(fire.fire_at, "skipped", reason="max_fires")
        )
    return decided


def _apply_overlap(schedule: Schedule, fires: list[Fire], unfinished: Unfinished) -> list[Fire]:
    """Keep to one job at a time: skip a fire that meets an unfinished one, or let it wait."""
    decided: list[Fire] = []
    room = 0 if unfinished.busy else 1
    if schedule.overlap == "queue_one":
        room = 0 if unfinished.waiting else (1 if unfinished.running else 2)
    several = schedule.misfire == "catch_up" and len([fire for fire in fires if fire.verdict == "ran"]) > 1
    for fire in fires:
        if fire.verdict != "ran" or (several and not unfinished.busy):
            decided.append(fire)
        elif room > 0:
            room -= 1
            decided.append(fire)
        else:
            decided.append(Fire(fire.fire_at, "skipped", fire.kind, reason="running", due_at=fire.due_at))
    return decided
