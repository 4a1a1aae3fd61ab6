"""Groups of errors: failures with the same cause, however their numbers, ids and times differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from horae.actions import error_groups
from horae.actions.jobs import acts
from horae.api import merges
from horae.api.acts import Act, begun_in_parts
from horae.api.everywhere import as_setting, over_all
from horae.api.gather import Join, Merged
from horae.api.here import Here
from horae.api.operation import GET, PAGES, POST, Call, Listing, Page, Room, S
from horae.api.values import Get, drop_none, to_public
from horae.core.cluster.numbers import job_id
from horae.core.cursors import cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import iso, micros
from horae.core.values import PYDANTIC

if TYPE_CHECKING:
    from horae.ports.store import Tx

USER_OR_WORKER = ("tasks", "worker")
OF_GROUP = attrgetter("owner", "fingerprint")


def _of_group(name: str) -> Get:
    return lambda view: getattr(view.group, name)


@dataclass(frozen=True, kw_only=True)
class ErrorGroup:
    """Failures of one owner with one fingerprint. ``message`` is that of the latest, with secrets masked.

    A release is what ``Horae(release=…)`` or ``HORAE_RELEASE`` named in the worker that ran the attempt.
    """

    __pydantic_config__ = PYDANTIC
    FROM_GROUP: ClassVar[tuple[str, ...]] = (
        "fingerprint", "owner", "handler", "kind", "title", "raised_in", "message", "count", "first_seen", "last_seen",
        "first_release", "last_release", "muted_at", "muted_until", "muted_by", "mute_reason",
    )  # fmt: skip
    DERIVED: ClassVar[dict[str, Get]] = {
        **{name: _of_group(name) for name in FROM_GROUP},
        "sample_job": lambda view: job_id(view.group.sample_job),
        "sample_run": lambda view: f"{job_id(view.group.sample_job)}.{view.group.sample_token}",
        "muted": lambda view: view.is_muted,
        "days": lambda view: {iso(day)[:10]: count for day, count in view.days.items()},
    }

    fingerprint: str
    owner: str
    handler: str
    kind: str
    title: str
    raised_in: str
    message: str
    count: int
    first_seen: datetime
    last_seen: datetime
    sample_job: str
    sample_run: str
    first_release: str | None = None
    last_release: str | None = None
    muted: bool = False
    muted_at: datetime | None = None
    muted_until: datetime | None = None
    muted_by: str | None = None
    mute_reason: str | None = None
    days: dict[str, int] = field(default_factory=dict)
    incomplete: tuple[str, ...] = ()
    databases: int | None = None


class ErrorGroups(Room[S]):
    """Errors by cause. A tenant sees its own; an operator names another owner than the house."""

    @PAGES("/errors", *USER_OR_WORKER)
    def list(
        self,
        *,
        owner: str | None = None,
        handler: str | None = None,
        muted: bool | None = None,
        seen_since: datetime | None = None,
        limit: int | None = None,
    ) -> Listing[ErrorGroup]:
        """List groups, those seen last first; *muted* False leaves out muted ones. Counts by day are left out."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[ErrorGroup], str | None]:
            begin = read_cursor(cursor, int, str, str)
            found = error_groups.find_groups(
                here.world,
                owner=here.caller.filter_owner(owner),
                handler=handler,
                muted=muted,
                seen_since=seen_since,
                limit=size + 1,
                before=None if begin is None else (begin[0], begin[1], begin[2]),
            )
            further = None
            if len(found) > size:
                last = found[size - 1].group
                further = cursor_from([micros(last.last_seen), last.owner, last.fingerprint])
            return [to_public(ErrorGroup, each) for each in found[:size]], further

        def some(here: Here, keys: Sequence[tuple[str, str]]) -> list[ErrorGroup]:
            return [to_public(ErrorGroup, each) for each in error_groups.some_groups(here.world, keys)]

        query = drop_none(owner=owner, handler=handler, muted=muted, seen_since=seen_since)
        order = attrgetter("last_seen", "owner", "fingerprint")
        join = Join(OF_GROUP, some, merges.merge_errors, lambda group: muted in (None, group.muted), drained=True)
        first = Call[Page[ErrorGroup]](Page[ErrorGroup], query=query, is_scattered=True)
        return Listing(first, limit, fetch, order=order, join=join, drained=True)

    @GET("/errors/{fingerprint}", *USER_OR_WORKER)
    def get(self, fingerprint: str, *, owner: str | None = None) -> Call[ErrorGroup]:
        """Return one group, with its counts by day over the last 30 days."""

        def fetch(here: Here) -> Any:
            return error_groups.get_group(here.world, fingerprint, owner=here.caller.resolve_owner(owner))

        at, gather = {"fingerprint": fingerprint}, over_all(fetch, merges.merge_group, drained=True)
        return Call(ErrorGroup, fetch, at=at, query=drop_none(owner=owner), gather=gather, is_scattered=True)

    @POST("/errors/{fingerprint}/mute", *USER_OR_WORKER)
    def mute(
        self, fingerprint: str, *, reason: str, until: datetime | None = None, owner: str | None = None
    ) -> Call[ErrorGroup]:
        """Mute a group until an instant, or until it is unmuted. It goes on counting, and stays muted when it grows."""

        def act(here: Here) -> Any:
            whose = here.caller.resolve_owner(owner)
            return error_groups.mute(
                here.world, fingerprint, owner=whose, until=until, actor=here.actor, reason=reason
            )  # fmt: skip

        body = {"reason": reason, **drop_none(until=until)}
        at = {"fingerprint": fingerprint}
        query = drop_none(owner=owner)

        def value(_: Tx) -> dict[str, Any]:
            return {"is_muted": True, "until": None if until is None else iso(until)}

        decide = as_setting("mute", fingerprint, value, act, merges.merge_group, reason=reason)
        gather = _wherever_it_is(act, decide, owner)
        return Call(ErrorGroup, act, at=at, query=query, body=body, repeats=True, gather=gather, is_scattered=True)

    @POST("/errors/{fingerprint}/unmute", *USER_OR_WORKER)
    def unmute(self, fingerprint: str, *, reason: str = "", owner: str | None = None) -> Call[ErrorGroup]:
        """Let a group be heard of again."""

        def act(here: Here) -> Any:
            whose = here.caller.resolve_owner(owner)
            return error_groups.unmute(here.world, fingerprint, owner=whose, actor=here.actor, reason=reason)

        body, at = drop_none(reason=reason or None), {"fingerprint": fingerprint}
        query, value = drop_none(owner=owner), {"is_muted": False, "until": None}
        decide = as_setting("mute", fingerprint, value, act, merges.merge_group, reason=reason)
        gather = _wherever_it_is(act, decide, owner)
        return Call(ErrorGroup, act, at=at, query=query, body=body, repeats=True, gather=gather, is_scattered=True)

    @POST("/errors/{fingerprint}/retry", *USER_OR_WORKER)
    def retry(self, fingerprint: str, *, reason: str = "", owner: str | None = None) -> Call[Act]:
        """Begin a bulk act that revives the dead jobs of a group; ``acts.wait`` waits for its end."""

        def fetch(here: Here) -> Any:
            return error_groups.get_group(here.world, fingerprint, owner=here.caller.resolve_owner(owner))

        def group(here: Here) -> Any:
            one = here.world.cluster is None
            return fetch(here) if one else over_all(fetch, merges.merge_group, drained=True)(here).answer

        def act(here: Here) -> Any:
            if here.world.cluster is not None and here.caller.sees is None:  # of the house, though about one tenant
                return begun_in_parts(plan)(here).answer
            return error_groups.retry(
                here.world, group(here).group, actor=here.actor, reason=reason, reach=here.reach
            )  # fmt: skip

        def plan(here: Here) -> Any:
            where = error_groups.retried_jobs(group(here).group)
            return acts.plan(here.world, "revive", where, actor=here.actor, reason=reason, **here.reach)

        body, at = drop_none(reason=reason or None), {"fingerprint": fingerprint}
        return Call(Act, act, at=at, query=drop_none(owner=owner), body=body, gather=begun_in_parts(plan))


def _wherever_it_is(
    act: Callable[[Here], Any], decide: Callable[[Here], Merged], owner: str | None
) -> Callable[[Here], Merged]:
    """Return what changes a group of a tenant in every database that has one; one of the house is a setting."""
    change = over_all(act, merges.merge_group, drained=True)

    def gather(here: Here) -> Merged:
        if here.caller.resolve_owner(owner) != SYSTEM:
            return change(here)
        from horae.api.shards import change_drained  # a single database does not need it

        return change_drained(here, decide(here), act)

    return gather
