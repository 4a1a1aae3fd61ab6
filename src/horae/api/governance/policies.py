"""Policies: the numbers by which objects are governed, per owner, agent and kind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from horae.actions.governance import plans, policies
from horae.api import merges
from horae.api.everywhere import over_all
from horae.api.governance.object_values import GovernedObject
from horae.api.here import Here
from horae.api.operation import GET, POST, PUT, Call, Room, S, if_match_header
from horae.api.values import Get, drop_none, to_json, to_public
from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import EVERY_AGENT
from horae.core.governance.machines import Action, Kind
from horae.core.governance.policies import policy_settings, resolve
from horae.core.values import PYDANTIC

USER, ADMIN = ("tasks", "review"), ("admin",)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy; ``settings`` are all its numbers, spans in seconds and shares from 0 to 1. Version 0 is built in."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[Mapping[str, Get]] = {
        "settings": lambda found: policy_settings(resolve(found)),
        "set_at": lambda found: found.set_at if found.version else None,
        "changed": lambda found: tuple(sorted(found.settings)),
    }

    owner: str
    agent: str
    kind: Kind
    version: int
    settings: dict[str, Any]
    changed: tuple[str, ...] = ()  # settings that differ from the built-in policy
    set_at: datetime | None = None
    set_by: str


@dataclass(frozen=True, kw_only=True)
class MovedObject:
    """An object that is due for something else, or at another time, by the policies that hold now."""

    __pydantic_config__ = PYDANTIC

    object: GovernedObject
    next_action: Action | None = None
    next_action_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Replanned:
    """How many objects were looked at and moved, and the first of them; with ``dry_run`` nothing was changed.

    ``incomplete`` names databases of a cluster that did not answer.
    """

    __pydantic_config__ = PYDANTIC

    dry_run: bool
    looked_at: int
    moved: int
    first: tuple[MovedObject, ...] = ()
    incomplete: tuple[str, ...] = ()


class Policies(Room[S]):
    """Policies of an owner, for one agent or for all, by kind."""

    @PUT("/governance/policies/{kind}", *ADMIN)
    def set(
        self,
        kind: Kind,
        settings: Mapping[str, Any],
        *,
        agent: str = EVERY_AGENT,
        expected_version: int | None = None,
        reason: str = "",
        owner: str | None = None,
    ) -> Call[Policy]:
        """Set the policy of a kind as a whole; what is not mentioned is as in the built-in one.

        Objects follow it from their next action on; :meth:`replan` lets them follow at once.
        """

        def act(here: Here) -> Any:
            return policies.set_policy(
                here.world, kind, settings, owner=here.caller.resolve_owner(owner), caller=here.caller, agent=agent,
                expected_version=expected_version, reason=reason,
            )  # fmt: skip

        given = {name: to_json(each) for name, each in settings.items()} if isinstance(settings, Mapping) else settings
        body = {"settings": given, **drop_none(reason=reason or None)}
        query, headers = drop_none(owner=owner, agent=agent), if_match_header(expected_version)
        return Call(Policy, act, at={"kind": kind}, query=query, body=body, headers=headers)

    @GET("/governance/policies/{kind}", *USER)
    def get(self, kind: Kind, *, agent: str = EVERY_AGENT, owner: str | None = None) -> Call[Policy]:
        """Return the policy that holds for a kind, and an agent."""

        def fetch(here: Here) -> Any:
            return policies.get_policy(here.world, kind, owner=here.caller.resolve_owner(owner), agent=agent)

        return Call(Policy, fetch, at={"kind": kind}, query=drop_none(owner=owner, agent=agent))

    @GET("/governance/policies", *USER)
    def list(self, *, owner: str | None = None) -> Call[tuple[Policy, ...]]:
        """List the policies of an owner: the built-in ones first, then those that were set."""

        def fetch(here: Here) -> Any:
            return tuple(policies.find_policies(here.world, owner=here.caller.resolve_owner(owner)))

        return Call(tuple[Policy, ...], fetch, query=drop_none(owner=owner))

    @POST("/governance/replan", *ADMIN)
    def replan(self, *, dry_run: bool = True, reason: str = "", owner: str | None = None) -> Call[Replanned]:
        """Plan objects by the policies that hold now; with *dry_run* only say what would move."""

        def act(here: Here) -> Replanned:
            done = plans.replan(here.world, owner=here.caller.filter_owner(owner), dry_run=dry_run, reason=reason)
            first = tuple(
                MovedObject(
                    object=to_public(GovernedObject, it),
                    next_action=None if planned is None else planned.action,
                    next_action_at=None if planned is None else planned.at,
                )
                for it, planned in done.moved[: merges.MOST_REPLANNED]
            )
            return Replanned(dry_run=dry_run, looked_at=done.looked_at, moved=len(done.moved), first=first)

        query, gather = drop_none(owner=owner), over_all(act, merges.merge_replanned)
        body = {"dry_run": dry_run, **drop_none(reason=reason or None)}
        return Call(Replanned, act, query=query, body=body, repeats=True, gather=gather)
