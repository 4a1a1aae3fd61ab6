"""Bulk acts: cancel, revive or reschedule every job that fits a filter, as a durable job with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar, Literal

from horae.actions.jobs import acts
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
from horae.errors import WaitTimeout

Verb = Literal["cancel", "revive", "reschedule"]


@dataclass(frozen=True, kw_only=True)
class Act:
    """A bulk act; ``matched`` was counted when it began, and ``more`` says that there were more than were counted."""

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


# Fields of the core value that have another name here, or none.
HIDDEN = {"number", "highest", "position", "job", "kept", "sample"}


@dataclass(frozen=True, kw_only=True)
class ActPreview:
    """What an act would reach now: how many jobs, at least so many where ``more`` is set, and the first of them."""

    __pydantic_config__ = PYDANTIC

    filter: str
    matched: int
    more: bool
    first: tuple[Job, ...] = ()


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

        return Call(ActPreview, look, body={"verb": verb, "where": where}, repeats=True)

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

        def begin(here: Here) -> Any:
            _check_owner(here, where)
            return acts.start(
                here.world, verb, where, run_at=run_at, delay=wait, actor=here.actor, reason=reason, **here.reach
            )

        body = {"verb": verb, "where": where, **drop_none(run_at=run_at, delay=wait, reason=reason or None)}
        return Call(Act, begin, body=body)

    @PAGES("/acts", *USER_OR_WORKER, by_queue=True)
    def list(self, *, state: ActState | Iterable[ActState] = (), limit: int | None = None) -> Listing[Act]:
        """List acts, newest first."""
        states = (state,) if isinstance(state, str) else tuple(state)

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Any], str | None]:
            (before,) = read_cursor(cursor, int, least=1, most=LARGEST - 1) or [None]
            found, further = acts.find(here.world, states=states, limit=size, before=before, **here.reach)
            return found, None if further is None else cursor_from([further])

        first = Call[Page[Act]](Page[Act], query=drop_none(state=states))
        return Listing(first, limit, fetch, order=attrgetter("created_at", "number"))

    @GET("/acts/{act_id}", *USER_OR_WORKER, by_queue=True)
    def get(self, act_id: str) -> Call[Act]:
        """Return one act with its progress."""
        return Call(Act, lambda here: acts.get(here.world, act_id, **here.reach), at={"act_id": act_id})

    @WAIT("/acts/{act_id}/wait", *USER_OR_WORKER, by_queue=True)
    def wait(self, act_id: str, *, timeout: Span = WAIT_TIMEOUT) -> Wait[Act]:
        """Wait until an act rests: done, cancelled or paused. ``WaitTimeout`` when it is still running then."""
        patience = check_timeout(timeout)

        def ask(seconds: float) -> Call[Act]:
            return Call(
                Act,
                lambda here: acts.get(here.world, act_id, **here.reach),
                at={"act_id": act_id},
                query={"timeout": seconds},
                longer=seconds,
            )

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
        return _steer(acts.undo, act_id, reason)


def _steer(verb: Callable[..., Any], act_id: str, reason: str) -> Call[Act]:
    def act(here: Here) -> Any:
        return verb(here.world, act_id, actor=here.actor, reason=reason, **here.reach)

    return Call(Act, act, at={"act_id": act_id}, body=drop_none(reason=reason or None))


def _check_owner(here: Here, where: str) -> None:
    """Refuse a filter that names another tenant than a caller sees, as every list does."""
    query = parse_filter(where, now=here.world.clock.now())
    here.caller.filter_owner(narrow(Filter(), query).owner)
