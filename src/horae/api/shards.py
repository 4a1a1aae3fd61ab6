"""One answer of all databases of a cluster: each is asked, and one that does not answer is named.

A database is away when it cannot be reached or does not answer within the timeouts of its store. Where none answers,
that is an error like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from horae.actions import shards
from horae.actions.consistency import moment
from horae.actions.settings.budgets import budget_value, decide_budget
from horae.actions.settings.decisions import Draft, decide
from horae.api.gather import Merged
from horae.api.masking import for_readers
from horae.api.operation import Page
from horae.core.cluster.positions import read_positions, write_positions
from horae.errors import NotFound, StoreBusy

if TYPE_CHECKING:
    from horae.actions.settings.decisions import Value
    from horae.api.gather import Join
    from horae.api.here import Here
    from horae.api.operation import FetchPage
    from horae.core.cluster.settings import Kind, Portion
    from horae.core.cluster.shard_map import Member
    from horae.core.governance.budgets import Budget
    from horae.ports.store import Tx

    Setting = tuple[Kind, str, Value | Callable[[Tx], Value], str]  # kind, name, value, reason

T = TypeVar("T")
TRIES = 8  # to see a tenant whose shard moves in one place
Merge = Callable[[list[Any]], Any]


def gather_all(here: Here, verb: Callable[[Here], Any], merge: Merge, *, drained: bool = False) -> Merged:
    """Run a verb in every database and merge the answers; in those that were *drained*, too.

    What only some databases know is found there; where none does, the refusal is that of the first.
    """
    found, away = ask_known(here, lambda there: for_readers(there, verb(there)), drained=drained)
    return Merged(merge(list(found.values())), away)


def gather_of_owner(here: Here, owner: str, gather: Callable[[Here], Merged]) -> Merged:
    """Ask every database for a tenant's rows, and once more its own, whether it still is there.

    Where it has moved meanwhile its live rows were seen twice or not at all, and all are asked again.
    """
    cluster = here.world.cluster
    assert cluster is not None
    vshard = cluster.shard_map.vshard_of(owner=owner)
    for _ in range(TRIES):
        shard_map = cluster.shard_map
        found = gather(here)
        if shard_map.member(shard_map.database_of(vshard)).name in found.incomplete:
            return found
        shards.look_at_owner(here.world, owner)
        if cluster.shard_map.version == shard_map.version:
            return found
    raise StoreBusy("vshard_busy", vshard=vshard)


def ask_known(here: Here, verb: Callable[[Here], T], *, drained: bool = False) -> tuple[dict[int, T], tuple[str, ...]]:
    """Ask each database for what only some of them know; where none does, the refusal is that of the first."""
    refusals: list[NotFound] = []

    def ask(there: Here, _: int) -> list[T]:
        try:
            return [verb(there)]
        except NotFound as unknown:
            refusals.append(unknown)
            return []

    found, away = ask_each(here, ask, drained=drained)
    answers = {number: answer for number, each in found.items() for answer in each}
    if not answers:
        raise refusals[0]
    return answers, away


def names_of(here: Here, numbers: Collection[int]) -> tuple[str, ...]:
    """Return the names of databases of the cluster, for people."""
    return tuple(each.name for each in shards.members(here.world) if each.number in numbers)


def change_setting(here: Here, setting: Setting, act: Callable[[Here, Portion], Any], merge: Merge) -> Merged:
    """Decide about a setting by *act* in one database, and let all others follow that answer."""
    kind, name, value, reason = setting
    draft = Draft(kind, name, value, here.actor, reason)
    decided = decide(here.world, draft, lambda world, part: act(replace(here, world=world), part))
    return Merged(merge(decided.answers), decided.away, decided.databases)


def change_drained(here: Here, decided: Merged, act: Callable[[Here], Any]) -> Merged:
    """Repeat a change of the house in databases that keep nothing any more: they follow no settings."""
    keeping = {each.number for each in shards.members(here.world)}
    away = list[str]()
    for member in _asked(here, drained=True):
        if member.number in keeping:
            continue
        try:
            act(replace(here, world=here.world.cluster.whole(here.world, member.number), everywhere=here.world))  # type: ignore[union-attr]
        except NotFound:
            continue
        except shards.AWAY:
            away.append(member.name)
    return replace(decided, incomplete=(*decided.incomplete, *away))


def share_out(
    here: Here, name: str, most: int | None, act: Callable[[Here, int | None], Any], merge: Merge, reason: str
) -> Merged:
    """Give each database its share of a limit over all of them; fewer than there are databases cannot be shared."""
    if most is not None:
        shards.share_of(here.world, most)
    setting: Setting = ("limit", name, {"is_set": True, "max_running": most}, reason)
    return change_setting(here, setting, lambda there, part: act(there, part.share(most)), merge)


def divide_budget(here: Here, budget: Budget, merge: Merge, reason: str) -> Merged:
    """Give each database its share of a budget; nothing at all, or no limit, every database has alike."""
    if budget.capacity:
        shards.share_of(here.world, budget.capacity)
    value = budget_value(budget)
    setting: Setting = ("budget", budget.id, value, reason)
    act = lambda there, part: decide_budget(there.world, value, part, here.actor, reason)  # noqa: E731
    made = change_setting(here, setting, act, merge)
    return Merged(made.answer, made.incomplete)


def ask_each(
    here: Here, ask: Callable[[Here, int], T], among: Mapping[int, Any] | None = None, *, drained: bool = False
) -> tuple[dict[int, T], tuple[str, ...]]:
    """Ask each database that keeps something, or those *among* them; return answers by number, and who was away.

    With *drained* those that keep nothing any more are asked, too: what has ended there stays there.
    """
    return shards.ask_each(
        here.world,
        lambda world, number: ask(replace(here, world=world, everywhere=here.world), number),
        among,
        asked=_asked(here, drained),
        spares=True,
    )


def _asked(here: Here, drained: bool) -> Sequence[Member]:
    assert here.world.cluster is not None
    return here.world.cluster.shard_map.sharded if drained else shards.members(here.world)


# -- pages -------------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """The page that one database gave: its rows, and where it goes on."""

    there: Here
    begin: str | None
    rows: Sequence[Any]
    further: str | None


def gather_page(
    here: Here,
    fetch: FetchPage,
    cursor: str | None,
    size: int,
    order: Callable[[Any], Any],
    *,
    is_rising: bool,
    join: Join | None = None,
    drained: bool = False,
) -> Merged:
    """Return one page of a list over all databases, merged by *order*, and a cursor with a position in each of them.

    With *drained* those that keep nothing any more are among them.

    Every position is read in the moment of its rows, so that none is shown twice or left out while others come.
    """
    begins = None if cursor is None else read_positions(cursor)
    with ExitStack() as moments:

        def ask(there: Here, number: int) -> Part:
            begin = None if begins is None else begins[number]
            moments.enter_context(moment(there.world))
            rows, further = fetch(there, begin, size)
            return Part(there, begin, for_readers(there if number in keeping else here, rows), further)

        keeping = {each.number for each in shards.members(here.world)}  # others hear of no new definitions
        parts, away = ask_each(here, ask, begins, drained=drained)
        joined, missing = (None, ()) if join is None else _joined(here, join, parts, order, is_rising, drained)
        away = (*away, *(each for each in missing if each not in away))
        rows, taken = _merge(parts, size, order, is_rising, joined)
        positions = {number: _position(fetch, part, taken[number]) for number, part in parts.items()}
    going_on = {number: at for number, (at, is_over) in positions.items() if not is_over}
    if going_on and away:  # one that was away goes on where it was, if it is back by then
        missed = [each.number for each in _asked(here, drained) if each.name in away and each.number not in parts]
        going_on |= {each: None if begins is None else begins[each] for each in missed if not begins or each in begins}
    return Merged(Page(tuple(rows), write_positions(going_on) if going_on else None, away), away)


Joined = Callable[[int, Any], Any]  # of a database and its row: what the list shows there; None: it is shown elsewhere


def _joined(
    here: Here, join: Join, parts: Mapping[int, Part], order: Callable[[Any], Any], is_rising: bool, drained: bool
) -> tuple[Joined, tuple[str, ...]]:
    """Look up the things of all parts in every database, also in those whose own rows have come to their end."""
    first = min if is_rising else max
    wanted = list(dict.fromkeys(join.key(row) for part in parts.values() for row in part.rows))
    by_key: dict[Any, dict[int, Any]] = {key: {} for key in wanted}

    def ask(there: Here, number: int) -> None:
        for row in for_readers(there, list(join.fetch(there, wanted))):
            by_key[join.key(row)][number] = row

    _, away = ask_each(here, ask, drained=join.drained) if wanted else (None, ())
    listing = {each.number for each in _asked(here, drained)}

    def show(number: int, row: Any) -> Any:
        rows = {number: row, **by_key[join.key(row)]}
        listed = [each for each in sorted(rows) if each in listing and join.fits(rows[each])]
        if not listed or first(listed, key=lambda each: order(rows[each])) != number:
            return None
        together = join.merge([rows[each] for each in sorted(rows)])
        return together if join.fits(together) else None

    return show, away


def _merge(
    parts: Mapping[int, Part],
    size: int,
    order: Callable[[Any], Any],
    is_rising: bool,
    joined: Joined | None = None,
) -> tuple[list[Any], dict[int, int]]:
    """Return the first rows of all parts, and how many of each there are.

    It ends early where a part has no more rows but goes on: what comes there may be next.
    """
    first, taken, merged = min if is_rising else max, dict.fromkeys(parts, 0), list[Any]()
    while len(merged) < size:
        ended = [number for number, part in parts.items() if taken[number] == len(part.rows)]
        heads = {each: parts[each].rows[taken[each]] for each in parts if each not in ended}
        if not heads or any(parts[each].further is not None for each in ended):
            break
        chosen = first(heads, key=lambda each: order(heads[each]))
        row = heads[chosen] if joined is None else joined(chosen, heads[chosen])
        merged += [] if row is None else [row]
        taken[chosen] += 1
    return merged, taken


def _position(fetch: FetchPage, part: Part, taken: int) -> tuple[str | None, bool]:
    """Return where a database goes on after so many of its rows, and whether it has no more."""
    if taken == len(part.rows):
        return part.further, part.further is None
    if taken == 0:
        return part.begin, False
    return fetch(part.there, part.begin, taken)[1], False
