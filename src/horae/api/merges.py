"""How the answers of several databases become one: counts add up, names come together, the worst and latest win."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horae.actions.budgets.budgets import BudgetView
    from horae.actions.error_groups import GroupView
    from horae.actions.governance.queries import Standings
    from horae.actions.jobs.acts import Preview
    from horae.actions.jobs.queries import GroupCounts
    from horae.actions.jobs.queues import QueueView
    from horae.actions.logs import Cleaned
    from horae.actions.overview import Overview
    from horae.actions.statistics import Figures
    from horae.core.governance.report import Report
    from horae.core.jobs.acts import Act
    from horae.core.jobs.running_limits import RunningLimit

MOST_REPLANNED = 100  # objects that are named
OF_STATE = ("count", "contested", "stalled")


def chain(answers: Sequence[Iterable[Any]]) -> list[Any]:
    """Return rows of all databases, one after another."""
    return [row for rows in answers for row in rows]


def merge_counts(answers: Sequence[GroupCounts]) -> GroupCounts:
    """Add counts by group, the largest first; one that did not reach its end says down to where it counted."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for each in chain([answer.groups for answer in answers]):
        counted[each.state, each.queue, each.handler] += each.count
    kind = {type(each) for each in chain([answer.groups for answer in answers])}
    groups = [make(*group, count) for make in kind for group, count in counted.items()]
    groups.sort(key=lambda each: (-each.count, each.state, each.queue, each.handler))
    ends = [answer.down_to for answer in answers if answer.down_to is not None]
    return replace(answers[0], groups=tuple(groups), down_to=min(ends, default=None))


def merge_queues(answers: Sequence[Iterable[QueueView]]) -> list[QueueView]:
    """Add the jobs of each queue by state and name all its workers; its settings are those of the first database."""
    found: dict[str, QueueView] = {}
    for view in chain(answers):
        known = found.get(view.name)
        found[view.name] = view if known is None else _add_queue(known, view)
    return [found[name] for name in sorted(found)]


def merge_queue(answers: Sequence[QueueView]) -> QueueView:
    return merge_queues([answers])[0]


def _add_queue(known: QueueView, more: QueueView) -> QueueView:
    jobs, workers = dict(Counter(known.jobs) + Counter(more.jobs)), tuple(sorted({*known.workers, *more.workers}))
    return replace(known, jobs=jobs, workers=workers, max_running=_sum(known.max_running, more.max_running))


def merge_limited(answers: Sequence[Any]) -> Any:
    """Return a queue after its limit was shared out."""
    shares = [each.max_running for each in answers]
    return replace(answers[0], max_running=None if None in shares else sum(shares))


def _sum(share: int | None, more: int | None) -> int | None:
    """Add two shares of a limit; a database without one, as after a start of jobs.conf, does not lift the others."""
    return more if share is None else share if more is None else share + more


def merge_limits(answers: Sequence[Iterable[RunningLimit]]) -> list[RunningLimit]:
    """Add what runs under each limit, and the shares of each of its sources."""
    found: dict[str, RunningLimit] = {}
    for limit in chain(answers):
        known = found.get(limit.name)
        found[limit.name] = limit if known is None else merge_limit([known, limit])
    return [found[name] for name in sorted(found)]


def merge_limit(answers: Sequence[RunningLimit]) -> RunningLimit:
    sources: dict[tuple[str, str], Any] = {}
    for each in chain([answer.sources for answer in answers]):
        known = sources.get((each.source, each.app))
        most = each.max_running if known is None else _sum(known.max_running, each.max_running)
        sources[each.source, each.app] = replace(each, max_running=most)
    return replace(answers[0], sources=tuple(sources.values()), running=sum(each.running for each in answers))


def merge_workers(answers: Sequence[Iterable[Any]]) -> list[Any]:
    """List each worker once, as it was heard of last: one without a database of its own is listed in all of them."""
    found = {each.id: each for each in sorted(chain(answers), key=attrgetter("seen_at"))}
    return [found[name] for name in sorted(found)]


def merge_overviews(answers: Sequence[Overview]) -> Overview:
    """Add counts, and name everything that any database names; a queue without a worker in one of them is unserved."""
    from horae.actions.overview import MOST_NAMES
    from horae.core.needs import MOST

    counts = ("running", "due", "late", "dead", "stuck", "confirmations", "reviews")
    names = ("unserved", "paused", "overdue_schedules", "missed_schedules", "inactive_schedules")
    errors = sorted(chain([each.new_errors for each in answers]), key=attrgetter("last_seen"), reverse=True)
    changes: dict[str, Any] = {
        **{name: min(sum(getattr(each, name) for each in answers), MOST + 1) for name in counts},
        **{name: tuple(sorted({*chain([getattr(each, name) for each in answers])})) for name in names},
        "workers": sum(each.workers for each in answers),
        "new_errors": tuple(errors[:MOST_NAMES]),
        "has_jobs": any(each.has_jobs for each in answers),
    }
    return replace(answers[0], **changes)


def merge_figures(answers: Sequence[Iterable[Figures]], *, limit: int | None = None) -> list[Figures]:
    """Add figures of the same name and span: by name those with most runs first, with *limit*; else by time."""
    from horae.core.statistics import Statistic  # a list of jobs needs none of it

    found: dict[Any, Figures] = {}
    for each in chain(answers):
        known = found.get((each.name, each.at))
        if known is None:
            found[each.name, each.at] = each
            continue
        together = Statistic()
        together.add(known.figures)
        together.add(each.figures)
        depths = [depth for depth in (known.depth, each.depth) if depth is not None]
        depth = sum(depths) if depths else None
        found[each.name, each.at] = replace(known, figures=together, depth=depth, until=max(known.until, each.until))
    if limit is None:
        return sorted(found.values(), key=attrgetter("at"))
    return sorted(found.values(), key=lambda each: (-each.figures.runs, each.name))[:limit]


def merge_group(answers: Sequence[GroupView]) -> GroupView:
    """Add the failures of one group; the latest one is its sample."""
    groups = [each.group for each in answers]
    first, last = min(groups, key=attrgetter("first_seen")), max(groups, key=attrgetter("last_seen"))
    muted = next((each for each in answers if each.is_muted), answers[0])
    days: Counter[Any] = Counter()
    for view in answers:
        days.update(view.days)
    mute = {name: getattr(muted.group, name) for name in ("muted_at", "muted_until", "muted_by", "mute_reason")}
    group = replace(
        last,
        count=sum(each.count for each in groups),
        first_seen=first.first_seen,
        first_release=first.first_release,
        **mute,
    )
    return replace(answers[0], group=group, is_muted=muted.is_muted, days=dict(sorted(days.items())))


def merge_errors(rows: Sequence[Any]) -> Any:
    """Add the failures of one group as a list shows it; the latest one is its sample."""
    first, last = min(rows, key=attrgetter("first_seen")), max(rows, key=attrgetter("last_seen"))
    muted = next((each for each in rows if each.muted), last)
    mute = {name: getattr(muted, name) for name in ("muted", "muted_at", "muted_until", "muted_by", "mute_reason")}
    counted = sum(each.count for each in rows)
    return replace(last, count=counted, first_seen=first.first_seen, first_release=first.first_release, **mute)


def merge_acts(parts: Sequence[Act]) -> Act:
    """Return one act of its parts: it goes on as long as one of them does, and figures add up."""
    from horae.core.jobs.acts import SAMPLE  # not above: a list of jobs would import the filter language

    states = [each.state for each in parts]
    reasons: Counter[str] = Counter()
    for part in parts:
        reasons.update(part.skipped_for)
    sample = {job: reason for part in parts for job, reason in part.sample.items()}
    ends = [each.finished_at for each in parts if each.finished_at is not None]
    counts = {name: sum(getattr(each, name) for each in parts) for name in ("matched", "changed", "skipped", "kept")}
    return replace(
        parts[0],
        **counts,
        state=next((each for each in ("running", "paused", "cancelled") if each in states), "done"),
        more=any(each.more for each in parts),
        skipped_for=dict(reasons),
        sample=dict(list(sample.items())[:SAMPLE]),
        finished_at=max(ends) if len(ends) == len(parts) else None,
    )


def merge_previews(answers: Sequence[Preview]) -> Preview:
    """Add what an act would reach, and name the first few of all."""
    from horae.core.jobs.acts import FIRST_FEW, MOST_COUNTED

    first = sorted(chain([each.first for each in answers]), key=attrgetter("created_at", "number"))
    matched = sum(each.matched for each in answers)
    return replace(
        answers[0],
        matched=min(matched, MOST_COUNTED),
        more=matched > MOST_COUNTED or any(each.more for each in answers),
        first=tuple(first[:FIRST_FEW]),
    )


def merge_standings(answers: Sequence[Standings]) -> Standings:
    """Add governed objects by kind and state, in the order in which each database has them."""
    kinds = {each.kind: None for each in chain([answer.counts for answer in answers])}
    found: dict[tuple[str, str], Any] = {}
    for each in chain([answer.counts for answer in answers]):
        known = found.get((each.kind, each.state))
        sums = {} if known is None else {name: getattr(known, name) + getattr(each, name) for name in OF_STATE}
        found[each.kind, each.state] = replace(each, **sums)
    order = list(kinds)
    looked_at = sum(each.looked_at for each in answers)
    return replace(
        answers[0],
        counts=tuple(sorted(found.values(), key=lambda each: (order.index(each.kind), each.state))),
        looked_at=looked_at,
        complete=all(each.complete for each in answers),
        **{name: sum(getattr(each, name) for each in answers) for name in ("late", "due_in_a_day", "open_reviews")},
    )


def merge_reports(answers: Sequence[tuple[Report, list[BudgetView]]]) -> tuple[Report, list[BudgetView]]:
    """Add reports on governance; their spans are those of the first."""
    from horae.core.governance.report import StateCount, add_counts, add_jobs  # a list of jobs needs none of it

    reports = [report for report, _ in answers]
    objects: Counter[tuple[str, str]] = Counter()
    for each in chain([report.objects for report in reports]):
        objects[each.kind, each.state] += each.count
    views: dict[tuple[str, str], list[BudgetView]] = {}  # a name is one owner's
    for view in chain([budgets for _, budgets in answers]):
        views.setdefault((view.budget.owner, view.budget.id), []).append(view)
    budgets = [merge_budgets(views[name]) for name in sorted(views)]
    series = [
        replace(
            spans[0],
            jobs=add_jobs(each.jobs for each in spans),
            events=add_counts(each.events for each in spans),
            decisions=add_counts(each.decisions for each in spans),
        )
        for spans in zip(*(report.series for report in reports), strict=True)
    ]
    together = replace(
        reports[0],
        complete=all(each.complete for each in reports),
        objects=tuple(StateCount(*named, count) for named, count in objects.items()),
        jobs=add_jobs(each.jobs for each in reports),
        lags=tuple(chain([each.lags for each in reports])),
        series=tuple(series),
        reviews_open=sum(each.reviews_open for each in reports),
        reviews=add_counts(each.reviews for each in reports),
        rollbacks_open=sum(each.rollbacks_open for each in reports),
        overdrawn=tuple(each.budget.id for each in budgets if each.period.overdrawn),
    )
    return together, budgets


OF_PERIOD = ("settled", "reserved", "overdrawn", "put_backs")


def merge_budgets(answers: Sequence[BudgetView]) -> BudgetView:
    """Add the shares of a budget of the house, and what the databases have used of them."""
    periods = [each.period for each in answers]
    shares = [each.capacity for each in periods]
    sums = {name: sum(getattr(each, name) for each in periods) for name in OF_PERIOD}
    period = replace(periods[0], capacity=_total(shares), **sums)
    return replace(max(answers, key=lambda each: _changed_at(each.budget)), period=period)


def merge_usage(rows: Sequence[Any]) -> Any:
    """Do the same with rows of a list."""
    sums = {name: sum(getattr(each, name) for each in rows) for name in OF_PERIOD}
    limits = {name: _total([getattr(each, name) for each in rows]) for name in ("capacity", "left")}
    newest = max(rows, key=_changed_at) if hasattr(rows[0], "changed_at") else rows[0]
    return replace(newest, **sums, **limits)


def _total(shares: Sequence[int | None]) -> int | None:
    """Add shares; one without a limit has none together."""
    known = [each for each in shares if each is not None]
    return sum(known) if len(known) == len(shares) else None


def _changed_at(budget: Any) -> float:
    return 0.0 if budget.changed_at is None else budget.changed_at.timestamp()


def merge_cleaned(answers: Sequence[Cleaned]) -> Cleaned:
    """Add what a clean-up of runs removed."""
    return replace(answers[0], removed=sum(each.removed for each in answers), more=any(each.more for each in answers))


def merge_replanned(answers: Sequence[Any]) -> Any:
    """Add what planning anew looked at and moved, and name the first few of all."""
    first = chain([each.first for each in answers])[:MOST_REPLANNED]
    sums = {name: sum(getattr(each, name) for each in answers) for name in ("looked_at", "moved")}
    return replace(answers[0], first=tuple(first), **sums)


def merge_owners(answers: Sequence[Iterable[Any]]) -> list[Any]:
    """Return what tenants of all databases have, by their name."""
    return sorted(chain(answers), key=attrgetter("owner"))


def merge_calendars(answers: Sequence[Iterable[Any]]) -> list[Any]:
    """Return every calendar once, as the database with its highest version knows it."""
    found: dict[str, Any] = {}
    for each in chain(answers):
        known = found.get(each.name)
        found[each.name] = each if known is None or each.version > known.version else known
    return [found[name] for name in sorted(found)]


def merge_calendar(answers: Sequence[Any]) -> Any:
    """Return a calendar of its highest version, with the schedules of all databases that use it."""
    users = sorted(chain([each.schedules for each in answers]))
    return replace(max(answers, key=attrgetter("version")), schedules=tuple(users))


def merge_fires(answers: Sequence[Iterable[Any]], limit: int) -> list[Any]:
    """Return the fires that come first of all."""
    return sorted(chain(answers), key=attrgetter("at"))[:limit]


def first_answer(answers: Sequence[Any]) -> Any:
    """Return the answer of the first database that has one."""
    return answers[0]


def joined_marks(answers: Sequence[Any]) -> Any:
    """Return the pulse of all databases: a mark differs where that of any does."""
    from horae.core.pulse import mark

    parts = answers[0].marks
    marks = {part: mark([each.marks.get(part) for each in answers]) for part in parts}
    return replace(answers[0], marks=marks)
