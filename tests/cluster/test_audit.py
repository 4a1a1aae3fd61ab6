"""The audit of a cluster: a chain in each database, verified and exported together, honest about one that is away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from horae.actions import moves
from horae.actions.audit import seal_all
from horae.api.audit import Verification, verify_export
from horae.core.audit.exports import write_line
from horae.core.cluster.shard_map import HOME
from horae.core.cursors import cursor_from
from horae.errors import InvalidInput, StoreError
from horae.ports.world import World
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import rooms
from tests.cluster.test_settings import Absence, only_files, shards
from tests.support.refusals import refused


def act(world: World, weight: int = 2) -> None:
    """Let the house act in every database, and some tenants in theirs."""
    rooms(world).queues.pause("mail", reason="a fire")
    for index in range(9):
        rooms(world).owners.put(f"owner-{index}", weight=index + weight)


def lines_of(world: World, owner: str | None = None) -> list[str]:
    return [write_line(line) for line in rooms(world).audit.export(owner=owner)]


def names(found: Verification) -> list[tuple[str | None, str]]:
    return [(each.database, each.owner) for each in found.chains]


def test_the_export_of_the_house_has_the_chains_of_every_database_and_proves_itself(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    act(world)
    lines = lines_of(world)
    header = json.loads(lines[0])
    assert header["databases"] == ["first", "db-2", "db-3"]
    assert header["incomplete"] == []
    found = verify_export(lines)
    assert found.sound, found
    house = [each.database for each in found.chains if each.owner == "system"]
    assert house == ["first", "db-2", "db-3"]
    assert len({owner for _, owner in names(found)}) == 10
    assert sum(each.entries for each in found.chains) == sum("hash" in json.loads(line) for line in lines)
    here = rooms(world).audit.verify()
    assert here.sound
    assert names(here) == names(found)


def test_heads_are_kept_by_database_and_owner(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    act(world)
    lines = lines_of(world)
    heads = {f"{each.database}:{each.owner}": each.head for each in verify_export(lines).chains}
    act(world, 3)
    seal_all(world)
    assert rooms(world).audit.verify(heads=heads).sound
    assert verify_export(lines, heads).sound
    swapped = {"first:system": heads["db-2:system"]}
    for found in (rooms(world).audit.verify(heads=swapped), verify_export(lines, swapped)):
        assert [(each.database, each.owner) for each in found.chains if each.complaints] == [("first", "system")]
    for plain in (heads["db-2:system"], heads["first:system"]):  # without a database: in one of them
        assert rooms(world).audit.verify(heads={"system": plain}).sound
        assert verify_export(lines, {"system": plain}).sound
    unknown = {"system": "0" * 63 + "1"}
    assert not rooms(world).audit.verify(heads=unknown).sound
    assert not verify_export(lines, unknown).sound
    for lost in ({"db-2:nobody": "1" * 64}, {"nobody": "1" * 64}):
        assert not rooms(world).audit.verify(heads=lost).sound
        assert not verify_export(lines, lost).sound


def _without_database(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take the chains of one database out, and mend the counts, but not what the header names."""
    begin = next(index for index, line in enumerate(lines) if line == {"database": "db-2"})
    gone = lines[begin:-1]
    kept = [*lines[:begin], lines[-1]]
    chains, entries = sum("chain" in line for line in gone), sum("hash" in line for line in gone)
    for line in (kept[0], kept[-1]):
        line["chains"] -= chains
        line["entries"] -= entries
    return kept


def _as_another(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for line in lines:
        if line == {"database": "db-2"}:
            line["database"] = "db-9"
    return lines


def _twice(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*lines[:-1], {"database": "db-2"}, lines[-1]]


def _moved(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the chains of the second stand under the first."""
    return [line for line in lines if line != {"database": "db-2"}]


@pytest.mark.parametrize("touch", [_without_database, _as_another, _twice, _moved])
@only_files
def test_an_export_whose_databases_were_touched_is_found(clusters: Clusters, touch: Any) -> None:
    world, _ = clusters.make(2)
    act(world)
    lines = [json.loads(line) for line in lines_of(world)]
    assert verify_export(map(write_line, lines)).sound
    assert not verify_export(map(write_line, touch(lines))).sound


@only_files
def test_a_database_that_is_away_is_named_and_nothing_is_claimed_about_it(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    act(world)
    heads = {f"{each.database}:{each.owner}": each.head for each in rooms(world).audit.verify().chains}
    absence = Absence(urls, 3)
    absence.begin(world, 3)
    world = clusters.open(urls[0])
    found = rooms(world).audit.verify(heads={**heads, "system": heads["db-3:system"]})
    assert found.incomplete == ("db-3",)
    assert not found.sound
    assert {each.database for each in found.chains} == {"first", "db-2"}
    assert not any(each.complaints for each in found.chains)
    lines = lines_of(world)
    assert json.loads(lines[0])["incomplete"] == ["db-3"]
    assert verify_export(lines).incomplete == ("db-3",)
    absence.end()
    world = clusters.open(urls[0])
    assert rooms(world).audit.verify(heads=heads).sound


@only_files
def test_what_was_changed_in_any_database_is_found_there(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    act(world)
    seal_all(world)
    store: Any = shards(world)[1].store
    with store.engine.begin() as connection:
        for name in ("horae_audit_no_change", "horae_audit_no_delete", "horae_audit_no_replace"):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
        connection.exec_driver_sql("UPDATE horae_audit SET actor = 'mallory' WHERE verb = 'pause'")
    found = rooms(world).audit.verify()
    assert [(each.database, each.owner) for each in found.chains if each.complaints] == [("db-2", "system")]
    assert found.warnings


def test_the_chain_of_a_tenant_that_was_moved_is_verified_in_both_databases(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    rooms(world).owners.put("ada", weight=3)
    vshard = shard_map.vshard_of(owner="ada")
    assert vshard != HOME
    there = "db-2" if shard_map.database_of(vshard) == 1 else "first"
    moves.move(world, [vshard], there)
    rooms(world).owners.put("ada", weight=4)
    found = rooms(world).audit.verify(owner="ada")
    assert found.sound
    assert sorted(names(found)) == [("db-2", "ada"), ("first", "ada")]
    assert sorted(names(verify_export(lines_of(world, "ada")))) == sorted(names(found))


@only_files
def test_where_no_database_answers_that_is_an_error(clusters: Clusters) -> None:
    world, urls = clusters.make(1)
    Absence(urls, 1).begin(world, 1)
    with pytest.raises(StoreError):
        rooms(world).audit.verify()


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_cursor_of_a_database_that_is_in_no_cluster_is_refused(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    act(world)
    with refused(InvalidInput, "cursor_invalid"):
        rooms(world).audit.list(owner="owner-1").page(cursor_from([9 << 48]))
