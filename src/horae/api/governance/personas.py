"""Personas: what an agent does not do, and what it values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal

from horae.actions.governance import personas
from horae.api.here import Here
from horae.api.operation import GET, PAGES, PUT, Call, Listing, Page, Room, S, if_match_header
from horae.api.values import Get, drop_none, to_json, to_public
from horae.core.cursors import cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import EVERY_AGENT
from horae.core.values import PYDANTIC

USER, ADMIN = ("tasks", "review"), ("admin",)


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """A text that an agent keeps away from: found in what it does or rests on, it blocks or limits a decision."""

    __pydantic_config__ = PYDANTIC

    text: str
    effect: Literal["block", "limit"] = "block"


@dataclass(frozen=True, kw_only=True)
class Persona:
    """The persona of an agent; that of ``*`` holds for every agent of the owner, beside its own."""

    __pydantic_config__ = PYDANTIC

    owner: str
    agent: str
    boundaries: tuple[Boundary, ...] = ()
    values: tuple[str, ...] = ()
    archived: bool = False
    version: int = 1
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, kw_only=True)
class PersonaChange:
    """A persona as an actor has set it, from the audit; ``id`` is that of the entry."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "id": lambda found: found[0],
        "at": lambda found: found[1].at,
        "actor": lambda found: found[1].actor,
        "reason": lambda found: found[1].reason,
        "boundaries": lambda found: tuple(Boundary(**each) for each in found[1].after["boundaries"]),
        "values": lambda found: tuple(found[1].after["values"]),
        "archived": lambda found: found[1].after["archived"],
    }

    id: int
    at: datetime
    actor: str
    reason: str | None = None
    boundaries: tuple[Boundary, ...] = ()
    values: tuple[str, ...] = ()
    archived: bool = False


class Personas(Room[S]):
    """Personas of agents. Only a person sets one: in Python name them with ``app.acting_as("user/carol")``."""

    @PUT("/governance/personas/{agent}", *ADMIN)
    def set(
        self,
        agent: str = EVERY_AGENT,
        *,
        boundaries: Sequence[str | Boundary | dict[str, Any]] = (),
        values: Sequence[str] = (),
        archived: bool = False,
        expected_version: int | None = None,
        reason: str = "",
        owner: str | None = None,
    ) -> Call[Persona]:
        """Set the persona of an agent as a whole; *boundaries* are texts, which block, or texts with an effect."""
        given = [to_json(each) for each in boundaries] if isinstance(boundaries, list | tuple) else boundaries

        def act(here: Here) -> Any:
            return personas.set_persona(
                here.world,
                owner=here.caller.resolve_owner(owner),
                person=here.caller,
                agent=agent,
                boundaries=given,
                values=values,
                archived=archived,
                expected_version=expected_version,
                reason=reason,
            )

        listed = list(values) if isinstance(values, tuple) else values
        body = {"boundaries": given, "values": listed, "archived": archived, **drop_none(reason=reason or None)}
        headers = if_match_header(expected_version)
        return Call(Persona, act, at={"agent": agent}, query=drop_none(owner=owner), body=body, headers=headers)

    @GET("/governance/personas/{agent}", *USER)
    def get(self, agent: str = EVERY_AGENT, *, owner: str | None = None) -> Call[Persona]:
        """Return the persona of an agent, or of every agent."""

        def fetch(here: Here) -> Any:
            return personas.get_persona(here.world, owner=here.caller.resolve_owner(owner), agent=agent)

        return Call(Persona, fetch, at={"agent": agent}, query=drop_none(owner=owner))

    @GET("/governance/personas", *USER)
    def list(self, *, owner: str | None = None) -> Call[tuple[Persona, ...]]:
        """List the personas of an owner, by agent."""

        def fetch(here: Here) -> Any:
            return tuple(personas.find_personas(here.world, owner=here.caller.resolve_owner(owner)))

        return Call(tuple[Persona, ...], fetch, query=drop_none(owner=owner))

    @PAGES("/governance/personas/{agent}/history", *USER)
    def history(
        self, agent: str = EVERY_AGENT, *, owner: str | None = None, limit: int | None = None
    ) -> Listing[PersonaChange]:
        """List who set a persona to what, newest first."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Any], str | None]:
            begin, whose = read_cursor(cursor, int), here.caller.resolve_owner(owner)
            found = personas.persona_history(
                here.world, owner=whose, agent=agent, limit=size, before=None if begin is None else begin[0]
            )
            further = cursor_from([found[-1][0]]) if len(found) == size else None
            return [to_public(PersonaChange, each) for each in found], further

        return Listing(Call(Page[PersonaChange], at={"agent": agent}, query=drop_none(owner=owner)), limit, fetch)
