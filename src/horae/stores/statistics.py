"""Statistics of endings: what is stored of them, and the history from which they are counted."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    text,
    union_all,
    update,
)

from horae.core.cluster.numbers import FIRST_NUMBER, VSHARDS
from horae.core.histograms import EDGES, LAST, Histogram, histogram_from, histogram_text
from horae.core.jobs.machinery import MACHINERY
from horae.core.statistics import (
    COUNTED,
    COUNTS,
    DEPTH,
    LENGTHS,
    SCOPES,
    Deaths,
    Endings,
    Grain,
    Marginals,
    RollUp,
    Statistic,
)
from horae.stores.databases.dialects import BY_NAME
from horae.stores.sums import RECENT, SUMMED, Window, named_spans, spans_between, totals_query, within
from horae.stores.tables.audit import audit
from horae.stores.tables.jobs import jobs, runs
from horae.stores.tables.statistics import ROLL_UP, roll_ups, stats

TIMED = ("succeeded", "failed", "timed_out")  # attempts that came to an end of their own; others have no duration
SINGLE = 10  # minutes of a span that are counted one by one
CHUNK = 500  # spans of time or rows in one statement
Span = tuple[int, int]  # from, and up to but not including, in microseconds


def _bucket_sql(name: str) -> str:
    """Return the bucket of a span in microseconds as SQL: a search by halves, because not all have logarithms."""

    def search(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        below, above = search(low, middle), search(middle + 1, high)
        return f"CASE WHEN {name} <= {EDGES[middle]} THEN {below} ELSE {above} END"

    return f"CASE WHEN {name} IS NOT NULL THEN {search(0, LAST)} END"


DURATION: ColumnElement[int] = literal_column(_bucket_sql("took"))
DELAY: ColumnElement[int] = literal_column(_bucket_sql("late"))
FIGURES = tuple(stats.c[name] for name in (*COUNTS, "durations", "delays"))


class Statistics:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    # -- how far it has come -----------------------------------------------------------------------------------

    def state(self, *, lock: bool = False) -> RollUp | None:
        query = select(*ROLL_UP.select).where(roll_ups.c.id == 1)
        found = self.connection.execute(query.with_for_update() if lock else query).first()
        if found is None and lock:
            before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
            row = ROLL_UP.row(RollUp())
            names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
            self.connection.execute(text(f"{before} {roll_ups.name} ({names}) VALUES ({marks}) {behind}"), row)
            found = self.connection.execute(query.with_for_update()).one()
        return None if found is None else ROLL_UP.read(found)

    def put_state(self, state: RollUp) -> None:
        self.connection.execute(update(roll_ups).where(roll_ups.c.id == 1).values(ROLL_UP.row(state)))

    # -- the history -------------------------------------------------------------------------------------------

    def first_ended(self, since: int) -> int | None:
        return self.ended_after(since, 0)

    def ended_after(self, since: int, skip: int) -> int | None:
        """Return when the run ended that comes *skip* runs after the first since an instant."""
        query = select(runs.c.finished_at).where(runs.c.finished_at >= since).order_by(runs.c.finished_at)
        found: int | None = self.connection.execute(query.limit(1).offset(skip)).scalar()
        return found

    def ended_before(self, until: int, skip: int) -> int | None:
        """Return when the run ended that lies *skip* runs before the last until an instant."""
        query = select(runs.c.finished_at).where(runs.c.finished_at < until).order_by(runs.c.finished_at.desc())
        found: int | None = self.connection.execute(query.limit(1).offset(skip)).scalar()
        return found

    def endings(self, start: int, end: int, length: int) -> list[Endings]:
        """Return what ended in a span, grouped by everything that is counted."""
        timed = runs.c.outcome.in_(TIMED)
        found = (
            select(
                _floor(length).label("at"), runs.c.queue, runs.c.handler, runs.c.owner, runs.c.outcome, runs.c.state,
                case((and_(runs.c.state.is_not(None), runs.c.attempt > 0), 1), else_=0).label("failed_before"),
                case((timed, runs.c.finished_at - runs.c.started_at)).label("took"),
                case((timed, runs.c.started_at - runs.c.run_at)).label("late"),  # kept with the last attempt alone
            )
            .where(runs.c.finished_at >= start, runs.c.finished_at < end)
            .subquery()
        )  # fmt: skip
        labels = tuple(
            found.c[name] for name in ("at", "queue", "handler", "owner", "outcome", "state", "failed_before")
        )
        if BY_NAME[self.connection.dialect.name].groups_by_sorting:
            return _group(self.connection.execute(select(*labels, found.c.took, found.c.late)))
        # Two groupings and not one by both buckets, which would return a row for nearly every run.
        spans: Any = ((DURATION, func.count(), found.c.took), (DELAY, literal_column("0"), found.c.late))
        durations, delays = (
            self.connection.execute(
                select(*labels, bucket, number, func.count(span), func.sum(span)).group_by(*labels, bucket)
            ).all()
            for bucket, number, span in spans
        )
        return _join(durations, delays)

    def deaths(self, start: int, end: int, length: int) -> list[Deaths]:
        """Count jobs that died. The history does not tell a death from a retry; the audit does, and keeps it."""
        at = _floor(length)
        by = (at, runs.c.queue, runs.c.handler, runs.c.owner)
        name = _job_id(runs.c.job_id)
        died = and_(audit.c.object_id == name, audit.c.verb == "dead", audit.c.at == runs.c.finished_at)
        failed = (runs.c.outcome.in_(COUNTED), runs.c.state.is_(None))
        query = select(*by, func.count()).join(audit, died).where(*failed, runs.c.finished_at >= start)
        rows = self.connection.execute(query.where(runs.c.finished_at < end).group_by(*by))
        return [Deaths(*row) for row in rows]

    def count_ended(self, spans: Sequence[Span], length: int) -> dict[int, int]:
        """Count the runs in the history by the beginning of the span of this length in which they ended."""
        counts: dict[int, int] = {}
        for chunk in _chunks([part for span in spans for part in _split(span, length)], 40):
            # Each of them follows the index alone; with OR, or grouped by minute, some databases read or sort the rows.
            parts = [_count(start, end, length) for start, end in chunk]
            for begin, number in self.connection.execute(union_all(*parts)):
                if number:
                    counts[int(begin)] = counts.get(int(begin), 0) + number
        return counts

    # -- what is stored ----------------------------------------------------------------------------------------

    def counted(self, grain: Grain, spans: Sequence[Span]) -> dict[int, int]:
        """Return the runs that were counted, by span."""
        found: dict[int, int] = {}
        for chunk in _chunks(spans, 40):
            inside = or_(*(and_(stats.c.at >= start, stats.c.at < end) for start, end in chunk))
            query = select(stats.c.at, stats.c.seen).where(
                stats.c.grain == grain, stats.c.scope == "total", stats.c.name == "", inside
            )
            found |= {row.at: row.seen for row in self.connection.execute(query)}
        return found

    def spans(self, grain: str, start: int, end: int, scope: str, name: str) -> dict[int, Statistic]:
        """Return the figures of one name by span."""
        conditions = (*within(grain, start, end), stats.c.scope == scope, stats.c.name == name)
        rows = self.connection.execute(select(stats.c.at, *FIGURES).where(*conditions))
        return {row[0]: _read(row[1:]) for row in rows}

    def marginals(self, grain: str, start: int, end: int, scope: str | None = None) -> list[Marginals]:
        """Return all figures of each span, or those of one marginal."""
        wanted = stats.c.scope.in_(SCOPES) if scope is None else stats.c.scope == scope
        query = select(stats.c.at, stats.c.scope, stats.c.name, *FIGURES).where(*within(grain, start, end), wanted)
        found: dict[int, Marginals] = {}
        for at, each, name, *figures in self.connection.execute(query):
            found.setdefault(at, {})[each, name] = _read(figures)
        return list(found.values())

    def totals(self, parts: Sequence[tuple[Window, str, str | None]]) -> list[dict[str, tuple[int, Statistic]]]:
        """Add up how attempts ended, by name or of one, each with the beginning of its first span; in one statement."""
        values: dict[str, Any] = {}
        shapes: list[tuple[int, bool, bool]] = []
        for index, ((grain, start, end), scope, name) in enumerate(parts):
            spans = None if name is not None else named_spans(grain, start, end)
            bounds = {f"start{index}": start, f"end{index}": end} if spans is None else {f"spans{index}": spans}
            values |= {f"grain{index}": grain, f"scope{index}": scope, **bounds}
            values |= {} if name is None else {f"name{index}": name}
            shapes.append((index, spans is not None, name is not None))
        found: list[dict[str, tuple[int, Statistic]]] = [{} for _ in parts]
        for index, name, first, *numbers in self.connection.execute(totals_query(tuple(shapes)), values):
            figures = Statistic()
            for kind, number in zip(SUMMED, numbers, strict=True):
                setattr(figures, kind, int(number))
            found[index][name] = first, figures
        return found

    def recent(self, start: int, end: int) -> Marginals:
        """Add up what the minutes of a window say of queues (outcomes, delays) and handlers (outcomes, durations).

        The database adds up: a row for each minute and name, with all of its figures, takes far longer to read.
        """
        found: Marginals = {}
        spans = spans_between(start, end, LENGTHS["minute"])
        rows = self.connection.execute(RECENT, {"spans": spans}) if spans else ()
        for scope, name, *counts, total, texts in rows:
            number, succeeded, failed, lost = map(int, counts)
            figures = found[scope, name] = Statistic(runs=number, succeeded=succeeded, failed=failed, lost=lost)
            if scope == "queue":
                figures.delay_sum, figures.delays = int(total), histogram_from(texts)
            else:
                figures.duration_sum, figures.durations = int(total), histogram_from(texts)
        return found

    def starts(self, grain: Grain, start: int, end: int) -> list[int]:
        """Return the spans for which something is stored."""
        query = select(stats.c.at).where(*within(grain, start, end)).distinct().order_by(stats.c.at)
        return list(self.connection.execute(query).scalars())

    def replace(self, grain: str, at: int, marginals: Marginals) -> None:
        """Store the figures of one span in place of those that are there; depths stay."""
        old = (stats.c.grain == grain, stats.c.at == at, stats.c.scope.in_(SCOPES))
        self.connection.execute(delete(stats).where(*old))
        rows = [
            {"grain": grain, "at": at, "scope": scope, "name": name, **_row(figures)}
            for (scope, name), figures in sorted(marginals.items())
        ]
        for chunk in _chunks(rows, CHUNK):
            self.connection.execute(insert(stats), list(chunk))

    def remove(self, grain: Grain, start: int, end: int) -> None:
        self.connection.execute(delete(stats).where(*within(grain, start, end)))

    # -- depths ------------------------------------------------------------------------------------------------

    def due_depths(
        self, now: int, most: int, most_queues: int, *, in_all: bool = False, skip: Collection[str] = ()
    ) -> dict[str, int]:
        """Count due jobs by queue, none further than *most*.

        With *in_all* that is the bound for all queues together; of those that come after it only whether there are any.
        Queues of *skip* are not looked at.
        """
        waiting = (jobs.c.state == "queued", jobs.c.held == "")
        found: dict[str, int] = {}
        queue: str | None = ""
        for _ in range(most_queues):
            further = select(func.min(jobs.c.queue)).where(*waiting, jobs.c.queue > queue)
            queue = self.connection.execute(further).scalar()
            if queue is None:
                break
            if queue in skip:
                continue
            left = max(1, most - sum(found.values())) if in_all else most
            counts = [
                select(jobs.c.id).where(jobs.c.queue == queue, *waiting, jobs.c.band == band, jobs.c.run_at <= now)
                for band in (0, 1, 2)
            ]
            parts = [
                select(select(func.count()).select_from(each.limit(left).subquery()).scalar_subquery())
                for each in counts
            ]
            depth = sum(int(number) for number in self.connection.execute(union_all(*parts)).scalars())
            if depth and queue != MACHINERY:
                found[queue] = min(depth, left)
        return found

    def put_depths(self, grain: Grain, at: int, depths: Mapping[str, int]) -> None:
        self.connection.execute(delete(stats).where(stats.c.grain == grain, stats.c.at == at, stats.c.scope == DEPTH))
        rows = [
            {"grain": grain, "at": at, "scope": DEPTH, "name": name, "durations": "", "delays": "", "depth": depth}
            for name, depth in sorted(depths.items())
        ]
        if rows:
            self.connection.execute(insert(stats), rows)

    def depths(self, grain: str, start: int, end: int, name: str | None = None) -> dict[str, dict[int, int]]:
        """Return sampled depths by queue and span."""
        query = select(stats.c.name, stats.c.at, stats.c.depth).where(
            *within(grain, start, end), stats.c.scope == DEPTH, *([] if name is None else [stats.c.name == name])
        )
        found: dict[str, dict[int, int]] = {}
        for queue, at, depth in self.connection.execute(query):
            found.setdefault(queue, {})[at] = depth
        return found


def _group(rows: Iterable[Any]) -> list[Endings]:
    """Group rows in this process: less work than sorting them, where the database would run in it too."""
    grouped: dict[tuple[Any, ...], tuple[list[int | None], list[int | None]]] = {}
    for row in rows:
        key = row[:7]
        spans = grouped.get(key)
        if spans is None:
            spans = grouped[key] = [], []
        spans[0].append(row[7])
        spans[1].append(row[8])
    return [
        _endings(key, len(took), sum(filter(None, took)), sum(filter(None, late)), _histogram(took), _histogram(late))
        for key, (took, late) in grouped.items()
    ]


def _join(by_duration: Iterable[Any], by_delay: Iterable[Any]) -> list[Endings]:
    """Join what the database has grouped by the bucket of the duration, and of the delay."""
    grouped: dict[tuple[Any, ...], tuple[list[int], tuple[Histogram, Histogram]]] = {}
    for which, rows in enumerate((by_duration, by_delay)):
        for *key, bucket, count, timed, total in rows:
            sums, histograms = grouped.setdefault(tuple(key), ([0, 0, 0], ({}, {})))
            sums[0] += count
            sums[1 + which] += int(total or 0)
            if bucket is not None:
                histograms[which][bucket] = timed
    return [_endings(key, sums[0], sums[1], sums[2], *spans) for key, (sums, spans) in grouped.items()]


def _endings(key: tuple[Any, ...], count: int, took: int, late: int, spans: Histogram, delays: Histogram) -> Endings:
    at, queue, handler, owner, outcome, state, failed_before = key
    return Endings(at, queue, handler, owner, outcome, state, bool(failed_before), count, took, late, spans, delays)


def _histogram(spans: Iterable[int | None]) -> Histogram:
    return dict(Counter(bisect_left(EDGES, span) for span in spans if span is not None))


def _split(span: Span, length: int) -> list[Span]:
    """Return the single minutes, hours or days of a short span; a long one as it is."""
    start, end = span
    if end - start > SINGLE * length:
        return [span]
    return [(at, at + length) for at in range(start, end, length)]


def _count(start: int, end: int, length: int) -> Any:
    inside = (runs.c.finished_at >= start, runs.c.finished_at < end)
    if end - start == length:
        return select(literal_column(str(start)).label("at"), func.count().label("number")).where(*inside)
    at = _floor(length)
    return select(at.label("at"), func.count().label("number")).where(*inside).group_by(at)


def _job_id(number: ColumnElement[int]) -> ColumnElement[str]:
    """Return the id of a job in SQL, as :func:`horae.core.cluster.numbers.job_id` writes it."""
    text = cast(number, String(20))
    sharded = literal("job_") + cast(number % literal_column(str(VSHARDS)), String(20)) + literal("x") + text
    return case((number < literal_column(str(FIRST_NUMBER)), literal("job_") + text), else_=sharded)


def _floor(length: int) -> ColumnElement[int]:
    return runs.c.finished_at - runs.c.finished_at % literal_column(str(length))


def _read(figures: Sequence[Any]) -> Statistic:
    *counts, durations, delays = figures
    named = dict(zip(COUNTS, counts, strict=True))
    return Statistic(**named, durations=histogram_from(durations), delays=histogram_from(delays))


def _row(figures: Statistic) -> dict[str, Any]:
    counts = {name: getattr(figures, name) for name in COUNTS}
    return {**counts, "durations": histogram_text(figures.durations), "delays": histogram_text(figures.delays)}


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
