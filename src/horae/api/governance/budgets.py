"""Budgets: how much may be spent in a period, how much is, and by whom it was set."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar

from horae.actions.budgets import budgets
from horae.api import merges
from horae.api.everywhere import over_all
from horae.api.gather import Join, Merged
from horae.api.here import Here
from horae.api.operation import GET, PAGES, POST, PUT, Call, Listing, Page, Room, S
from horae.api.values import Get, drop_none, to_public
from horae.core.cursors import MAX_PAGE, cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import EVERY_AGENT, Period, Unit, reference_from
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import MICROSECOND, instant, micros
from horae.core.values import PYDANTIC
from horae.errors import NotFound

USER, ADMIN = ("tasks", "worker"), ("admin",)
OF_BUDGET = attrgetter("owner", "name", "agent", "unit", "period")


def _of(part: str, name: str) -> Get:
    return lambda view: getattr(getattr(view, part), name)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A budget and what its present period has used of it.

    ``capacity`` and ``left`` are None where it only counts. ``reserved`` is held by attempts that run; ``put_backs``
    counts the starts and spends that found it empty; ``overdrawn`` says by how much it was exceeded at most. In a
    cluster each database has a share of what the house may spend, and these are the sums.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        **{
            name: _of("budget", name)
            for name in ("owner", "name", "agent", "unit", "period", "changed_at", "changed_by")
        },
        **{
            name: _of("period", name)
            for name in ("capacity", "settled", "reserved", "left", "overdrawn", "put_backs", "starts_at")
        },
        "refill_at": lambda view: view.refill_at,
    }

    owner: str
    name: str
    agent: str
    unit: Unit
    period: Period
    capacity: int | None
    settled: int
    reserved: int
    left: int | None
    overdrawn: int
    put_backs: int
    starts_at: datetime
    refill_at: datetime | None
    changed_at: datetime | None
    changed_by: str
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PeriodUsage:
    """What one period has used of a budget."""

    __pydantic_config__ = PYDANTIC

    starts_at: datetime
    capacity: int | None
    settled: int
    reserved: int
    left: int | None
    overdrawn: int
    put_backs: int


class Budgets(Room[S]):
    """Budgets. A *name* is that of all agents, ``llm``, or of one, ``llm/researcher``. A tenant sees its own."""

    @PUT("/governance/budgets/{name}/{unit}", *ADMIN)
    def set(
        self,
        name: str,
        unit: Unit,
        capacity: int | None,
        *,
        period: Period = "day",
        reason: str = "",
        owner: str | None = None,
    ) -> Call[Budget]:
        """Set what may be spent in each period, from the present one on; None: no limit, it only counts.

        Jobs that wait for it are due at once.
        """

        def act(here: Here) -> Any:
            whose = here.caller.resolve_owner(owner)
            return budgets.set_budget(
                here.world, name, unit, capacity, period=period, owner=whose, actor=here.actor, reason=reason
            )

        def gather(here: Here) -> Merged:
            from horae.api.shards import divide_budget

            if capacity is not None:
                budgets.check_amount("capacity", capacity, least=0)
            budget = replace(budgets.named(name, unit, period), capacity=capacity)
            return divide_budget(here, budget, merges.merge_budgets, reason)

        (at, query), body = _place(name, unit, period, owner), {"capacity": capacity}
        body |= drop_none(reason=reason or None)
        return Call(Budget, act, at=at, query=query, body=body, gather=gather)

    @POST("/governance/budgets/{name}/{unit}/adjust", *ADMIN)
    def adjust(
        self,
        name: str,
        unit: Unit,
        amount: int,
        *,
        reason: str,
        period: Period = "day",
        owner: str | None = None,
    ) -> Call[Budget]:
        """Correct what the present period has used: what was spent elsewhere counts, a refund is below zero."""

        def act(here: Here) -> Any:
            whose = here.caller.resolve_owner(owner)
            return correct(here, amount, whose)

        def correct(here: Here, part: int, whose: str = SYSTEM) -> Any:
            return budgets.adjust(
                here.world, name, unit, part, period=period, owner=whose, actor=here.actor, reason=reason
            )

        def gather(here: Here) -> Merged:
            from horae.api.shards import ask_each, ask_known

            found, _ = ask_known(here, lambda there: budgets.get(there.world, name, unit, period=period))
            parts = budgets.divide_correction(amount, {number: each.period for number, each in found.items()})
            changed, away = ask_each(here, lambda there, number: correct(there, parts[number]), parts)
            rest = [each for number, each in found.items() if number not in changed]
            return Merged(merges.merge_budgets([*changed.values(), *rest]), away)

        at, query = _place(name, unit, period, owner)
        return Call(Budget, act, at=at, query=query, body={"amount": amount, "reason": reason}, gather=gather)

    @GET("/governance/budgets/{name}/{unit}", *USER)
    def get(self, name: str, unit: Unit, *, period: Period = "day", owner: str | None = None) -> Call[Budget]:
        """Return one budget with what its present period has used."""

        def fetch(here: Here) -> Any:
            return budgets.get(here.world, name, unit, period=period, owner=here.caller.resolve_owner(owner))

        at, query = _place(name, unit, period, owner)
        return Call(Budget, fetch, at=at, query=query, gather=over_all(fetch, merges.merge_budgets, drained=True))

    @PAGES("/governance/budgets", *USER)
    def list(self, *, name: str | None = None, owner: str | None = None, limit: int | None = None) -> Listing[Budget]:
        """List budgets with what their present periods have used, by owner, name, agent, unit and period."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Budget], str | None]:
            begin = read_cursor(cursor, str, str, str, str, str)
            found = budgets.find(
                here.world,
                owner=here.caller.filter_owner(owner),
                name=name,
                limit=size + 1,
                after=None if begin is None else tuple(begin),
            )
            further = None
            if len(found) > size:
                last = found[size - 1].budget
                further = cursor_from([last.owner, last.name, last.agent, last.unit, last.period])
            return [to_public(Budget, each) for each in found[:size]], further

        first = Call[Page[Budget]](Page[Budget], query=drop_none(name=name, owner=owner))

        def some(here: Here, keys: Iterable[tuple[str, str, str, Unit, Period]]) -> list[Budget]:
            return [to_public(Budget, each) for each in budgets.some(here.world, keys)]

        join = Join(OF_BUDGET, some, merges.merge_usage, drained=True)
        return Listing(first, limit, fetch, order=OF_BUDGET, is_rising=True, join=join)

    @PAGES("/governance/budgets/{name}/{unit}/history", *USER)
    def history(
        self,
        name: str,
        unit: Unit,
        *,
        period: Period = "day",
        owner: str | None = None,
        limit: int | None = None,
    ) -> Listing[PeriodUsage]:
        """List the periods in which a budget was used, the latest first."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[PeriodUsage], str | None]:
            begin, whose = read_cursor(cursor, int), here.caller.resolve_owner(owner)
            before = None if begin is None else instant(begin[0])
            found = budgets.history(
                here.world, name, unit, period=period, owner=whose, limit=size + 1, before=before
            )  # fmt: skip
            further = cursor_from([micros(found[size - 1].starts_at)]) if len(found) > size else None
            return [to_public(PeriodUsage, each) for each in found[:size]], further

        def some(here: Here, starts: list[datetime]) -> list[PeriodUsage]:
            whose, end = here.caller.resolve_owner(owner), max(starts) + MICROSECOND
            with suppress(NotFound):
                found = budgets.history(
                    here.world, name, unit, period=period, owner=whose, limit=MAX_PAGE, before=end
                )  # fmt: skip
                return [to_public(PeriodUsage, each) for each in found if each.starts_at in starts]
            return []

        at, query = _place(name, unit, period, owner)
        by, first = attrgetter("starts_at"), Call[Page[PeriodUsage]](Page[PeriodUsage], at=at, query=query)
        return Listing(first, limit, fetch, order=by, join=Join(by, some, merges.merge_usage, drained=True))


def _place(name: str, unit: str, period: str, owner: str | None) -> tuple[dict[str, str], dict[str, Any]]:
    """Return path and query of a budget; an agent stands in the query, because a path cannot hold its slash."""
    plain, agent = reference_from(name)
    named = None if agent == EVERY_AGENT else agent
    return {"name": plain, "unit": unit}, drop_none(agent=named, period=period, owner=owner)
