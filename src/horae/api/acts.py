"""Bulk acts: cancel, revive or reschedule every job that fits a filter, as a durable job with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar, Literal

from horae.actions.jobs import acts
from horae.api import merges
from horae.api.everywhere import over_all
from horae.api.gather import Join, Merged
from horae.api.here import Here
from horae.api.jobs.room import USER_OR_WORKER, Job
from horae.api.operation import GET, PAGES, POST, Call, Listing, Page, Room, S
from horae.api.values import Get, drop_none
from horae.api.waits import WAIT, WAIT_TIMEOUT, Wait, check_timeout
from horae.core.cluster.numbers import job_id
from horae.core.cursors import LARGEST, cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.jobs.acts import ActState, ActVerb
from horae.core.jobs.filters import narrow, parse_filter
from horae.core.jobs.job import Filter
from horae.core.time.spans import Span, span
from horae.core.values import PYDANTIC
from horae.errors import NotAllowed, WaitTimeout

Verb = Literal["cancel", "revive", "reschedule"]


@dataclass(frozen=True, kw_only=True)
class Act:
    """A bulk act; ``matched`` was counted when it began, and ``more`` says that there were more than were counted.

    In a cluster its figures are those of all databases together. ``incomplete`` names the ones that do not answer, or
    that the act has not reached yet: workers and servers bring it there within a minute of their return.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "up_to": lambda act: job_id(act.highest),
        "at": lambda act: job_id(act.position),
        "undoes": lambda act: None if act.undoes is None else f"act_{act.undoes}",
        "job_id": lambda act: None if act.job is None else job_id(act.job),
        "skipped_for": lambda act: dict(act.skipped_for),
        "skipped_first": lambda act: dict(act.sample),
    }

    id: str
    verb: ActVerb
    state: ActState
    filter: str
    up_to: str
    at: str
    created_at: datetime
    actor: str
    owner: str = "system"
    queues: tuple[str, ...] = ()
    reason: str = ""
    run_at: datetime | None = None
    undoes: str | None = None
    job_id: str | None = None
    matched: int = 0
    more: bool = False
    changed: int = 0
    skipped: int = 0
    skipped_for: Mapping[str, int] = field(default_factory=dict)
    skipped_first: Mapping[str, str] = field(default_factory=dict)
    finished_at: datetime | None = None
    incomplete: tuple[str, ...] = ()


# Fields of the core value that have another name here, or none.
HIDDEN = {"number", "highest", "position", "job", "kept", "sample", "databases"}


@dataclass(frozen=True, kw_only=True)
class ActPreview:
    """What an act would reach now: how many jobs, at least so many where ``more`` is set, and the first of them."""

    __pydantic_config__ = PYDANTIC

    filter: str
    matched: int
    more: bool
    first: tuple[Job, ...] = ()
    incomplete: tuple[str, ...] = ()


def has_come_to_rest(act: Act) -> bool:
    """Return whether an act is done, cancelled or paused."""
    return act.state != "running"


class Acts(Room[S]):
    """Bulk acts on jobs; a tenant's reaches only its own jobs."""

    @POST("/acts/preview", *USER_OR_WORKER, by_queue=True)
    def preview(self, verb: Verb, where: str) -> Call[ActPreview]:
        """Count what an act would reach now, and return the first few; nothing is changed."""

        def look(here: Here) -> Any:
            _check_owner(here, where)
            return acts.preview(here.world, verb, where, **here.reach)

        gather = over_all(look, merges.merge_previews)
        return Call(ActPreview, look, body={"verb": verb, "where": where}, repeats=True, gather=gather)

    @POST("/acts", *USER_OR_WORKER, by_queue=True)
    def start(
        self,
        verb: Verb,
        where: str,
        *,
        run_at: datetime | None = None,
        delay: Span | None = None,
        reason: str = "",
    ) -> Call[Act]:
        """Begin to cancel, revive or reschedule every job that fits *where*; it goes on in the background.

        The filter, with its relative times, and the highest job number are frozen now. A reschedule moves jobs to
        *run_at*, or to *delay* from now. An empty filter is refused.
        """
        wait = None if delay is None else span(delay)

        def plan(here: Here) -> Any:
            _check_owner(here, where)
            return acts.plan(
                here.world, verb, where, run_at=run_at, delay=wait, actor=here.actor, reason=reason, **here.reach
            )

        body = {"verb": verb, "where": where, **drop_none(run_at=run_at, delay=wait, reason=reason or None)}
        return Call(Act, lambda here: acts.begin(here.world, plan(here)), body=body, gather=begun_in_parts(plan))

    @PAGES("/acts", *USER_OR_WORKER, by_queue=True)
    def list(self, *, state: ActState | Iterable[ActState] = (), limit: int | None = None) -> Listing[Act]:
        """List acts, newest first."""
        states = (state,) if isinstance(state, str) else tuple(state)

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Any], str | None]:
            (before,) = read_cursor(cursor, int, least=1, most=LARGEST - 1) or [None]
            found, further = acts.find(here.world, states=states, limit=size, before=before, **here.reach)
            return found, None if further is None else cursor_from([further])

        first = Call[Page[Act]](Page[Act], query=drop_none(state=states))
        join = Join(attrgetter("number"), _some, merges.merge_acts, lambda act: not states or act.state in states)
        return Listing(first, limit, fetch, order=attrgetter("created_at", "number"), join=join)

    @GET("/acts/{act_id}", *USER_OR_WORKER, by_queue=True)
    def get(self, act_id: str) -> Call[Act]:
        """Return one act with its progress."""
        return _look(act_id)

    @WAIT("/acts/{act_id}/wait", *USER_OR_WORKER, by_queue=True)
    def wait(self, act_id: str, *, timeout: Span = WAIT_TIMEOUT) -> Wait[Act]:
        """Wait until an act rests: done, cancelled or paused. ``WaitTimeout`` when it is still running then."""
        patience = check_timeout(timeout)

        def ask(seconds: float) -> Call[Act]:
            return replace(_look(act_id), query={"timeout": seconds}, longer=seconds)

        def overdue(act: Act) -> WaitTimeout:
            return WaitTimeout("act_not_ended_in_time", id=act.id, state=act.state, timeout=patience)

        return Wait(ask, has_come_to_rest, overdue, patience)

    @POST("/acts/{act_id}/pause", *USER_OR_WORKER, by_queue=True)
    def pause(self, act_id: str, *, reason: str = "") -> Call[Act]:
        """Let an act rest after the batch under way."""
        return _steer(acts.pause, act_id, reason)

    @POST("/acts/{act_id}/resume", *USER_OR_WORKER, by_queue=True)
    def resume(self, act_id: str, *, reason: str = "") -> Call[Act]:
        """Let a paused act go on where it stopped."""
        return _steer(acts.resume, act_id, reason)

    @POST("/acts/{act_id}/cancel", *USER_OR_WORKER, by_queue=True)
    def cancel(self, act_id: str, *, reason: str = "") -> Call[Act]:
        """End an act after the batch under way; what it has changed stays changed."""
        return _steer(acts.cancel, act_id, reason)

    @POST("/acts/{act_id}/undo", *USER_OR_WORKER, by_queue=True)
    def undo(self, act_id: str, *, reason: str = "") -> Call[Act]:
        """Begin an act that gives jobs the time back from which a reschedule moved them."""
        return replace(_steer(acts.undo, act_id, reason), gather=_undone_in_parts(act_id, reason))


def _steer(verb: Callable[..., Any], act_id: str, reason: str) -> Call[Act]:
    def act(here: Here) -> Any:
        return verb(here.world, act_id, actor=here.actor, reason=reason, **here.reach)

    body = drop_none(reason=reason or None)
    return Call(Act, act, at={"act_id": act_id}, body=body, gather=_steered_in_parts(act, act_id))


def _look(act_id: str) -> Call[Act]:
    def fetch(here: Here) -> Any:
        return acts.get(here.world, act_id, **here.reach)

    return Call(Act, fetch, at={"act_id": act_id}, gather=_of_parts(fetch))


def _some(here: Here, numbers: Iterable[int]) -> list[Any]:
    return acts.some(here.world, numbers, **here.reach)


# -- over several databases: one act has a row of the same number in each, and a job there that works on it -----------


def _of_parts(verb: Callable[[Here], Any]) -> Callable[[Here], Merged]:
    """Return what asks every database for its part of an act; one that has none but should is named."""

    def gather(here: Here) -> Merged:
        from horae.api.shards import ask_known

        return _merged(here, *ask_known(here, verb))

    return gather


def _merged(here: Here, parts: Mapping[int, Any], away: tuple[str, ...]) -> Merged:
    from horae.api.shards import names_of

    together = merges.merge_acts(list(parts.values()))
    is_cancelled = any(each.state == "cancelled" for each in parts.values())  # then it goes nowhere else
    lacking = () if is_cancelled else names_of(here, {int(number) for number in together.databases} - set(parts))
    return Merged(together, tuple(dict.fromkeys((*away, *lacking))))


def begun_in_parts(plan: Callable[[Here], Any]) -> Callable[[Here], Merged]:
    """Return what begins a planned act in every database: the first that answers gives it its number.

    Every part says which databases the act is for. A process that dies in between leaves parts that name those
    without one.
    """

    def gather(here: Here) -> Merged:
        from horae.actions.shards import members
        from horae.api.shards import ask_each

        numbers = tuple(str(each.number) for each in members(here.world))
        planned = [replace(plan(here), databases=numbers)]

        def begin(there: Here, _: int) -> Any:
            begun = acts.begin(there.world, planned[0])
            planned[0] = replace(planned[0], number=begun.number)
            return begun

        return _merged(here, *ask_each(here, begin))

    return gather


def _undone_in_parts(act_id: str, reason: str) -> Callable[[Here], Merged]:
    def gather(here: Here) -> Merged:
        from horae.api.shards import ask_known

        look = _of_parts(lambda there: acts.get(there.world, act_id, **there.reach))
        acts.check_undoable(look(here).answer)
        begun: dict[str, Any] = {}

        def undo(there: Here) -> Any:
            made = acts.undo(there.world, act_id, actor=there.actor, reason=reason, **begun, **there.reach)
            begun.update(number=made.number, created_at=made.created_at)
            return made

        return _merged(here, *ask_known(here, undo))

    return gather


def _steered_in_parts(act: Callable[[Here], Any], act_id: str) -> Callable[[Here], Merged]:
    """Return what steers the parts of an act that allow it; one that is over stays as it is while others go on."""

    def gather(here: Here) -> Merged:
        from horae.api.shards import ask_known

        refusals, steered = list[NotAllowed](), list[int]()

        def steer(there: Here) -> Any:
            try:
                after = act(there)
                steered.append(after.number)
                return after
            except NotAllowed as refused:
                refusals.append(refused)
                return acts.get(there.world, act_id, **there.reach)

        parts, away = ask_known(here, steer)
        if not steered:
            raise refusals[0]
        return _merged(here, parts, away)

    return gather


def _check_owner(here: Here, where: str) -> None:
    """Refuse a filter that names another tenant than a caller sees, as every list does."""
    query = parse_filter(where, now=here.world.clock.now())
    here.caller.filter_owner(narrow(Filter(), query).owner)
