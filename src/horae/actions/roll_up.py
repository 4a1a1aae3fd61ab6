"""The roll-up of endings into statistics.

A minute is counted when it has been over for a minute, always anew from the history and never by adding to what is
there, so that a step may be repeated, and equals a recount. A step reads one moment, and writes in one transaction that
is refused when another step was written in between; any number of processes may call it. What comes late is found by
comparing the number of runs in a minute with the number that was counted. docs/decisions/0098 says when.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from datetime import datetime

from horae.core.dataclass import dataclass
from horae.core.error_groups import KEPT_DAYS, Seen, group, grown
from horae.core.statistics import (
    CHECKED_AT,
    CLOSES_AFTER,
    DAY,
    FINER,
    HOUR,
    KEPT,
    LENGTHS,
    MINUTE,
    MOST_DEPTH,
    PAST,
    Grain,
    Marginals,
    RollUp,
    floor,
    fold,
    merge,
)
from horae.core.time.instants import MICROSECOND, instant, micros
from horae.ports.store import Tx
from horae.ports.world import World

AGAIN = 5  # the last minutes, which are checked by every step
AT_ONCE = 60 * MINUTE  # counted in one step, at most
MOST_ROWS = 50_000  # runs in one step, unless one minute has more
RECENT_ROWS = 50_000  # as many of the newest runs are checked by every step
MOST_STEPS = 100  # of one chore
MOST_LATE = 20  # spans counted again in one step
WIDEST = 6 * HOUR  # checked at one age in one step; after a long silence the rest is left to the next age
LONGEST_PAUSE = DAY  # between checks while nothing ends
MOST_QUEUES = 200  # whose depth is sampled
Span = tuple[int, int]


@dataclass(slots=True)
class Step:
    """What one step found out, to be written if nothing else was in between."""

    before: RollUp
    after: RollUp
    spans: dict[tuple[Grain, int], Marginals] = field(default_factory=dict)  # counted anew
    errors: dict[int, dict[tuple[str, str], Seen]] = field(default_factory=dict)  # by minute
    depths: dict[str, int] | None = None
    more: bool = False


def roll_up(world: World) -> bool:
    """Count endings that have not been counted, in one bounded step; return true when more is left."""
    now = micros(world.clock.now())
    step = world.route().store.read(lambda tx: compute_step(tx, now))
    return world.route().store.transact(lambda tx: write_step(tx, step, now))


def keep_up(world: World) -> None:
    """Roll up what has ended, if anything has, in as many steps as it takes; a long backlog goes on next time."""
    if is_behind(world):
        for _ in range(MOST_STEPS):
            if not roll_up(world):
                break


def rolled_until(world: World) -> datetime:
    """Return up to when all endings have been counted: what ended later must not be removed from the history yet."""
    state = world.route().store.read(lambda tx: tx.statistics.state())
    return world.clock.now() if state is None or state.version == 0 else instant(state.rolled_until)


def is_behind(world: World) -> bool:
    """Return whether ``roll_up`` has something to do: endings to be counted, or a check for late ones that is due."""
    now = micros(world.clock.now())
    closed = _closed(now)

    def read(tx: Tx) -> bool:
        state = tx.statistics.state()
        if state is None or state.version == 0:
            first = tx.statistics.first_ended(0)
        elif state.check_at <= now:
            return True
        else:
            first = tx.statistics.first_ended(state.rolled_until)
        return first is not None and first < closed

    return world.route().store.read(read)


def _closed(now: int) -> int:
    """Return the end of the last minute that may be counted."""
    return floor(now - CLOSES_AFTER // MICROSECOND, MINUTE)


# -- what a step finds out ---------------------------------------------------------------------------------------------


def compute_step(tx: Tx, now: int) -> Step:
    closed, before = _closed(now), tx.statistics.state() or RollUp()
    state = before
    if state.version == 0:
        first = tx.statistics.first_ended(0)
        start = closed if first is None else min(floor(first, MINUTE), closed)
        kept = {grain: min(start, now - KEPT[grain] // MICROSECOND) for grain in LENGTHS}
        state = replace(
            state, rolled_until=start, ended_until=start, checked_until=start, minutes_from=floor(kept["minute"], HOUR),
            hours_from=floor(kept["hour"], DAY), days_from=floor(kept["day"], DAY),
        )  # fmt: skip
    begin, end = _next_minutes(tx, state.rolled_until, closed)
    step = Step(before, state, more=end < closed)
    late = _late(tx, state, closed)
    too_many = any(len(starts) > MOST_LATE for starts in late.values())
    step.more |= too_many
    for grain, starts in late.items():
        for at in starts[:MOST_LATE]:
            step.spans |= _recount(tx, at, at + LENGTHS[grain], grain)
            if grain == "minute":
                step.errors |= group(tx.error_groups.failures(at, at + MINUTE))
    if begin < end:
        step.spans |= _recount(tx, begin, end, "minute")
        step.errors |= group(tx.error_groups.failures(begin, end))
    newest = max((at + MINUTE for grain, at in step.spans if grain == "minute"), default=0)
    ended_until = max(state.ended_until, newest)
    if now - state.sampled_at >= MINUTE:
        step.depths = tx.statistics.due_depths(now, MOST_DEPTH, MOST_QUEUES)
    step.after = replace(
        state,
        version=state.version + 1,
        rolled_until=max(state.rolled_until, end),
        ended_until=ended_until,
        checked_until=state.checked_until if too_many else max(state.checked_until, closed),
        check_at=now + MINUTE if step.depths else now + min(max(MINUTE, (now - ended_until) // 2), LONGEST_PAUSE),
        sampled_at=state.sampled_at if step.depths is None else now,
        last_number=max(state.last_number, tx.metrics.last_number()),
    )
    return step


def _next_minutes(tx: Tx, start: int, closed: int) -> Span:
    """Return which minutes to count next; minutes without an ending are passed over."""
    first = tx.statistics.first_ended(start)
    if first is None or first >= closed:
        return max(start, closed), max(start, closed)
    begin = max(start, floor(first, MINUTE))
    end = min(begin + AT_ONCE, closed)
    full = tx.statistics.ended_after(begin, MOST_ROWS)
    if full is not None and full < end:
        end = max(begin + MINUTE, floor(full, MINUTE))
    return begin, end


def _recount(tx: Tx, start: int, end: int, grain: Grain) -> dict[tuple[Grain, int], Marginals]:
    length = LENGTHS[grain]
    found = fold(tx.statistics.endings(start, end, length), tx.statistics.deaths(start, end, length))
    return {(grain, at): marginals for at, marginals in found.items()}


def _late(tx: Tx, state: RollUp, closed: int) -> dict[Grain, list[int]]:
    """Return spans in which more runs ended than were counted. Fewer mean that history was removed."""
    until = state.rolled_until
    spans = [(closed - AGAIN * MINUTE, until)]
    recent = tx.statistics.ended_before(until, RECENT_ROWS)
    spans.append((0 if recent is None else floor(recent, MINUTE), until))
    for age in CHECKED_AT:
        end = closed - age * MINUTE
        spans.append((max(state.checked_until - age * MINUTE, end - WIDEST), end))
    found: dict[Grain, list[int]] = {}
    newer = until
    for grain in LENGTHS:  # where a minute is no longer kept, its hour is checked, and then its day
        oldest, length = state.kept_from(grain), LENGTHS[grain]
        inside = _joined(_clipped(spans, oldest, newer, length))
        newer = min(newer, oldest)
        if not inside:
            continue
        counted = tx.statistics.counted(grain, inside)
        there = tx.statistics.count_ended(inside, length)
        found[grain] = sorted(at for at, number in there.items() if number > counted.get(at, 0))
    return {grain: starts for grain, starts in found.items() if starts}


def _clipped(spans: Iterable[Span], start: int, end: int, length: int) -> list[Span]:
    """Return the parts of spans between two instants, made of whole minutes, hours or days."""
    whole = ((floor(max(low, start), length), floor(min(high, end), length)) for low, high in spans)
    return [(low, high) for low, high in whole if low < high]


def _joined(spans: list[Span]) -> list[Span]:
    """Return spans without what they have in common, so that nothing is counted twice."""
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


# -- what a step writes ------------------------------------------------------------------------------------------------


def write_step(tx: Tx, step: Step, now: int) -> bool:
    found = tx.statistics.state(lock=True)
    assert found is not None
    if found.version != step.before.version:
        return True  # another step was written since this one looked; what it found out may be old
    for (grain, at), marginals in step.spans.items():
        tx.statistics.replace(grain, at, marginals)
    for minute, seen in step.errors.items():
        _grow_groups(tx, minute, seen)
    if step.depths is not None:
        tx.statistics.put_depths("minute", floor(now, MINUTE), step.depths)
    _close(tx, "hour", step)
    _close(tx, "day", step)
    tx.statistics.put_state(_forget(tx, step.after, now))
    return step.more


def _close(tx: Tx, grain: Grain, step: Step) -> None:
    """Add up the hours or days that are over, and those of which a part was counted again."""
    length, finer = LENGTHS[grain], FINER[grain]
    start, end = (floor(state.rolled_until, length) for state in (step.before, step.after))
    if step.before.version == 0:
        start = floor(step.after.kept_from(finer), length)
    over = {floor(at, length) for at in tx.statistics.starts(finer, start, end)}
    again = {floor(at, length) for of, at in step.spans if of == finer and floor(at, length) < end}
    for at in sorted(over | again):
        marginals = merge(tx.statistics.marginals(finer, at, at + length))
        tx.statistics.replace(grain, at, marginals)
        step.spans[grain, at] = marginals  # so that the day is added up again too
        depths = tx.statistics.depths(finer, at, at + length)
        tx.statistics.put_depths(grain, at, {queue: max(samples.values()) for queue, samples in depths.items()})


def _grow_groups(tx: Tx, minute: int, seen: dict[tuple[str, str], Seen]) -> None:
    """Let error groups grow by what a minute has more than was counted before."""
    counted = tx.error_groups.counted("minute", minute)
    more = {key: each.count - counted.get(key, 0) for key, each in seen.items()}
    more = {key: number for key, number in more.items() if number > 0}
    if not more:
        return
    workers = {end.worker_id or "" for key in more for end in (seen[key].first, seen[key].last)}
    releases = tx.nodes.releases(workers)
    for key, number in more.items():
        tx.error_groups.put(grown(tx.error_groups.get(*key, lock=True), seen[key], number, releases))
    day = floor(minute, DAY)
    of_day = tx.error_groups.counted("day", day)
    tx.error_groups.put_counts("minute", minute, {key: seen[key].count for key in more})
    tx.error_groups.put_counts("day", day, {key: of_day.get(key, 0) + number for key, number in more.items()})


def _forget(tx: Tx, state: RollUp, now: int) -> RollUp:
    """Remove what is no longer kept, a day of minutes at a time, never before it was added up in what is coarser."""
    added_up: dict[Grain, int] = {"minute": HOUR, "hour": DAY, "day": DAY}
    ends: dict[Grain, int] = {}
    finer = state.rolled_until
    for grain, unit in added_up.items():
        start = state.kept_from(grain)
        end = floor(min(now - KEPT[grain] // MICROSECOND, finer), unit)
        ends[grain] = finer = end = max(start, min(end, start + 24 * unit))
        if start == end:
            continue
        if grain == "day":
            _keep_past(tx, start, end)
        tx.statistics.remove(grain, start, end)
        if grain == "minute":
            tx.error_groups.forget(end, floor(now, DAY) - KEPT_DAYS * DAY)
    return replace(state, minutes_from=ends["minute"], hours_from=ends["hour"], days_from=ends["day"])


def _keep_past(tx: Tx, start: int, end: int) -> None:
    """Add days that are about to be removed to what counters show of all time."""
    old = [marginals for scope in ("total", "queue") for marginals in tx.statistics.marginals("day", start, end, scope)]
    past = [marginals for scope in ("total", "queue") for marginals in tx.statistics.marginals(PAST, 0, 1, scope)]
    if old:
        tx.statistics.replace(PAST, 0, merge([*past, *old]))
