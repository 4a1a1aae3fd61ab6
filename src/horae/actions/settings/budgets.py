"""Budgets of the house in a cluster: one decision about the whole, of which each database may spend a share.

What was spent stays where it was spent. When the shares are divided anew, a database that has spent more of the present
period than its new share keeps that, and the others get what was really given up; so no period ever has more than the
whole. From the next period on each has its share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from horae.actions.budgets.budgets import BudgetView, set_budget
from horae.actions.settings.divisions import put_note, read_division
from horae.actions.shards import AWAY
from horae.core.cluster.settings import OWN, Division, GivenUp, Portion, SharedSetting, divide_freed, portion_of
from horae.core.governance.budgets import Budget, BudgetPeriod
from horae.core.time.instants import micros

if TYPE_CHECKING:
    from horae.ports.store import Tx
    from horae.ports.world import World

Figures = Callable[[int], int | None]  # of the beginning of the present period: what may be spent in it; None: unknown


def budget_value(budget: Budget) -> dict[str, Any]:
    return {
        "name": budget.reference, "unit": budget.unit, "period": budget.period, "capacity": budget.capacity
    }  # fmt: skip


def apply_budget(world: World, setting: SharedSetting, portion: Portion, figures: Figures | None = None) -> BudgetView:
    """Give one database its share of a budget. *figures* say what it gets of the present period in the last step."""
    known = world.route().store.read(lambda tx: tx.settings.find([(setting.kind, setting.name)]))
    if known and known[0].rank == setting.rank:
        return _set(world, setting.value, portion, setting.actor, setting.reason, _redivide(setting, portion, figures))
    return decide_budget(world, setting.value, portion, setting.actor, setting.reason, setting)


def decide_budget(
    world: World,
    value: Mapping[str, Any],
    portion: Portion,
    actor: str,
    reason: str,
    setting: SharedSetting | None = None,
) -> BudgetView:
    """Set a budget to another figure: each database has its share at once, whatever was spent."""

    def choose(tx: Tx, before: BudgetPeriod) -> int | None:
        whole = value["capacity"]
        share = portion.share(whole)
        if whole is not None and portion.is_interim:
            decided = setting or tx.settings.find([("budget", budget_name(value))])[0]
            given = GivenUp(portion.final.share(whole) or 0, max(share or 0, before.settled + before.reserved))
            _note(tx, decided, before, given)
        return share

    return _set(world, value, portion, actor, reason, choose)


def budget_name(value: Mapping[str, Any]) -> str:
    """Return the name of the setting: the budget within the house."""
    return f"{value['name']}:{value['unit']}:{value['period']}"


def _set(
    world: World,
    value: Mapping[str, Any],
    portion: Portion,
    actor: str,
    reason: str,
    choose: Callable[[Tx, BudgetPeriod], int | None],
) -> BudgetView:
    name, unit, period = value["name"], value["unit"], value["period"]
    share = portion.share(value["capacity"])
    return set_budget(world, name, unit, share, period=period, actor=actor, reason=reason, choose=choose)


def _redivide(
    setting: SharedSetting, portion: Portion, figures: Figures | None
) -> Callable[[Tx, BudgetPeriod], int | None]:
    """Return what chooses the capacity of the present period when only the portion has changed."""
    share = portion.share(setting.value["capacity"])

    def choose(tx: Tx, before: BudgetPeriod) -> int | None:
        had, used = before.capacity, before.settled + before.reserved
        if share is None or had is None:
            return share
        if portion.is_interim:
            kept = max(min(had, share), min(had, used))
            _note(tx, setting, before, GivenUp(had, kept))
            return kept
        figure = None if figures is None else figures(micros(before.starts_at))
        return had if figure is None else max(min(had, used), figure)

    return choose


def _note(tx: Tx, setting: SharedSetting, period: BudgetPeriod, given: GivenUp) -> None:
    division = read_division(tx)
    if division is None:
        return
    value = {
        "rank": list(setting.rank), "keepers": list(division.keepers), "starts_at": micros(period.starts_at),
        "had": given.had, "kept": given.kept,
    }  # fmt: skip
    put_note(tx, setting.name, 0, division.version, value)


# -- the last step -----------------------------------------------------------------------------------------------------


def figures_of(world: World, number: int, setting: SharedSetting) -> Figures:
    """Return what says how much of a period a database may spend, by what all databases have noted."""

    def figure(starts_at: int) -> int | None:
        assert world.cluster is not None
        whole, notes = setting.value["capacity"], {}
        for member in world.cluster.shard_map.members:
            try:
                notes[member.number] = world.cluster.store_of(member.number).read(lambda tx: _look(tx, setting))
            except AWAY:
                continue
        own = notes[number][0] if number in notes else None
        if own is None:
            return None
        wanted = {each: portion_of(each, own.keepers).share(whole) or 0 for each in own.keepers}
        pins = {
            each: pin
            for each, found in notes.items()
            if (pin := _pin(own, setting, starts_at, wanted.get(each), *found)) is not None
        }
        if not pins.keys() >= wanted.keys() or number not in wanted:
            return None
        return divide_freed(wanted, pins)[number]

    return figure


Look = tuple[Division | None, SharedSetting | None, SharedSetting | None]  # the division, the copy, and the note


def _look(tx: Tx, setting: SharedSetting) -> Look:
    copies = tx.settings.find([(setting.kind, setting.name)])
    return read_division(tx), next(iter(copies), None), next(iter(tx.settings.find([(OWN, setting.name)])), None)


def _pin(
    own: Division,
    setting: SharedSetting,
    starts_at: int,
    share: int | None,
    division: Division | None,
    copy: SharedSetting | None,
    note: SharedSetting | None,
) -> GivenUp | None:
    """Return what a database gave up in this division; None where that is not known. *share*: None, it keeps nothing.

    Of an earlier period, or where it has had its share all along, it gave up nothing.
    """
    if division is None or division.keepers != own.keepers or copy is None or copy.rank != setting.rank:
        return None
    value = {} if note is None else note.value
    if value and (value["rank"], value["keepers"]) == (list(setting.rank), list(own.keepers)):
        assert note is not None
        if note.version == own.version and value["starts_at"] == starts_at:
            return GivenUp(value["had"], value["kept"])
        return GivenUp(share or 0, share or 0)
    is_final = copy.applied == division.portion.final.text
    return GivenUp(share or 0, share or 0) if is_final else None
