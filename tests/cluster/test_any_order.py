"""Producers with old maps, movers that stop anywhere, databases that are added: any order of steps, on files.

After every step each acknowledged job is in exactly one place: in the table of the database that the newest map names,
or in a parcel that is still awaited. No number is given twice, and no virtual shard is open in two databases.
"""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from horae.actions import cluster as verbs
from horae.actions import moves
from horae.actions.jobs import claims, jobs
from horae.actions.jobs.requests import Request
from horae.clock import SystemDice
from horae.core.cluster.moves import Parcel
from horae.core.cluster.numbers import birthplace, vshard_in
from horae.core.cluster.shard_map import HOME
from horae.core.jobs.job import Outcome
from horae.errors import Conflict, StoreBusy
from horae.ports.world import World
from horae.runtime.sources.store import StoreSource
from horae.stores.cluster.opening import with_cluster
from horae.stores.opening import create_store_engine, open_store
from horae.testing.clock import NOON, VirtualClock
from tests.cluster.test_working import LEASE

GROUPS = [f"group-{n}" for n in range(6)]
PRODUCERS, MOST = 2, 4  # databases
groups, producers = st.sampled_from(GROUPS), st.integers(0, PRODUCERS - 1)


def open_world(file: Path) -> World:
    store, clock = open_store(create_store_engine(f"sqlite:///{file}", "OFF")), VirtualClock(NOON)
    world = World(store, clock, SystemDice(), tzdata="2030a")
    return with_cluster(world, store, make_clock=lambda _: clock)


def make_template(folder: Path) -> None:
    """Make a cluster of two files, and one that can join; every story begins with a copy of them."""
    first = open_world(folder / "0.db")
    verbs.init(first, name="db-0", address="sqlite:///0.db")
    first.store.close()
    world = open_world(folder / "0.db")
    for index in range(1, MOST):
        other = open_world(folder / f"{index}.db")
        if index == 1:
            verbs.add(world, other, name="db-1", address="sqlite:///1.db")
        other.store.close()
    world.store.close()


class Stories(RuleBasedStateMachine):
    """Files, producers with maps of their own, and what they were told."""

    template: ClassVar[Path]
    folder: ClassVar[Path]
    told: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        Stories.told += 1
        self.home = self.folder / str(Stories.told)
        shutil.copytree(self.template, self.home)
        self.producers = [open_world(self.home / f"{index}.db") for index in range(PRODUCERS)]
        self.mover = open_world(self.home / "1.db")
        self.readers: dict[int, sqlite3.Connection] = {}
        self.count, self.size = 0, 2
        self.stored: dict[str, tuple[str, str]] = {}  # by key: group, id
        self.ended: set[str] = set()
        self.given: set[int] = set()
        self.steps: dict[str, tuple[Parcel, int]] = {}  # parcels on the way, with the steps that are done

    def teardown(self) -> None:
        for world in (*self.producers, self.mover):
            world.store.close()
        for reader in self.readers.values():
            reader.close()
        shutil.rmtree(self.home)

    # -- producers ---------------------------------------------------------------------------------------------

    @rule(producer=producers, group=groups)
    def enqueue(self, producer: int, group: str) -> None:
        self.count += 1
        self._enqueue(producer, group, f"key-{self.count}")

    @precondition(lambda self: self.stored)
    @rule(producer=producers, data=st.data())
    def repeat(self, producer: int, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.stored)))
        self._enqueue(producer, self.stored[key][0], key)

    def _enqueue(self, producer: int, group: str, key: str) -> None:
        try:
            made = jobs.enqueue(self.producers[producer], Request("mail", {}, key=key, shard_key=group))
        except StoreBusy:
            assert self._vshard(group) in self._on_the_way(), "refused without a reason"
            return
        if key in self.stored:
            assert made.id == self.stored[key][1], "a key made a second job"
            return
        self.stored[key] = (group, made.id)
        assert made.number not in self.given, "a number was given twice"
        self.given.add(made.number)

    @rule(producer=producers, data=st.data())
    def work(self, producer: int, data: st.DataObject) -> None:
        """Claim in one database and end it, wherever it is by then."""
        world = self.producers[producer]
        shard = data.draw(st.sampled_from(range(len(world.databases()))))
        source = StoreSource(world.databases()[shard], world)
        for job in claims.claim(world.databases()[shard], "default", 2, worker_id="w", lease=LEASE):
            assert job.id not in self.ended, "a job ran again"
            if source.settle([(job, Outcome("succeeded"))]):
                self.ended.add(job.id)

    # -- movers ------------------------------------------------------------------------------------------------

    @rule(chosen=st.sets(groups, min_size=1, max_size=2), to=st.integers(1, MOST))
    def pack(self, chosen: set[str], to: int) -> None:
        shard_map = verbs.known_map(self.mover)
        vshards = {self._vshard(group) for group in chosen} - {HOME}
        sources = {shard_map.database_of(each) for each in vshards}
        if to > self.size or len(sources) != 1 or sources == {to}:
            return
        [source] = sources
        parcel = Parcel(f"p{self.count}-{len(self.given)}-{to}", source, to, tuple(sorted(vshards)))
        self.count += 1
        if vshards & self._on_the_way():
            with pytest.raises(Conflict):
                moves.pack(self.mover, parcel)
            return
        moves.pack(self.mover, parcel)
        self.steps[parcel.id] = (parcel, 0)

    @precondition(lambda self: self.steps)
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """Do the next step of a parcel; a mover may stop after any."""
        parcel, done = self.steps[data.draw(st.sampled_from(sorted(self.steps)))]
        (moves.switch, moves.unpack, moves.advance)[done](self.mover, parcel)
        self.steps[parcel.id] = (parcel, done + 1)
        if done == 2:
            del self.steps[parcel.id]

    @precondition(lambda self: self.steps)
    @rule(producer=producers)
    def repair(self, producer: int) -> None:
        assert verbs.check(self.producers[producer], repair=True).is_well
        self.steps.clear()

    @precondition(lambda self: self.size < MOST)
    @rule(producer=producers)
    def add(self, producer: int) -> None:
        joining = open_world(self.home / f"{self.size}.db")
        name = f"db-{self.size}"
        with suppress(Conflict):
            verbs.add(self.producers[producer], joining, name=name, address=f"sqlite:///{name[3:]}.db")
        joining.store.close()
        self.size += 1

    # -- what holds ----------------------------------------------------------------------------------------------

    @invariant()
    def each_job_is_in_one_place(self) -> None:
        newest, found = dict(self._ask(0, PLACES)), Counter[int]()
        expected = {row[0] for index in range(self.size) for row in self._ask(index, EXPECTED)}
        for index in range(self.size):
            for (number,) in self._ask(index, "SELECT id FROM horae_jobs WHERE queue = 'default'"):
                found[number] += 1
                assert newest[vshard_in(number) or 0] == index + 1, "where the newest map does not look"
            for parcel, content in self._ask(index, PACKED):
                if parcel in expected:
                    found.update(row["id"] for row in json.loads(content) if row["queue"] == "default")
        waiting = {made for _, made in self.stored.values()} - self.ended
        assert set(found.values()) <= {1}, "in two places"
        assert {f"job_{vshard_in(number)}x{number}" for number in found} == waiting, "lost, or not over"

    @invariant()
    def each_shard_is_open_in_one_database_at_most(self) -> None:
        owned = Counter(vshard for index in range(self.size) for (vshard,) in self._ask(index, OWNED))
        assert not owned or max(owned.values()) == 1

    @invariant()
    def numbers_name_their_birthplace(self) -> None:
        assert {birthplace(number) for number in self.given} <= set(range(1, self.size + 1))

    # -- helpers -------------------------------------------------------------------------------------------------

    def _vshard(self, group: str) -> int:
        assert self.mover.cluster is not None
        return self.mover.cluster.shard_map.vshard_of(shard_key=group)

    def _on_the_way(self) -> set[int]:
        return {vshard for parcel, done in self.steps.values() if done < 2 for vshard in parcel.vshards}

    def _ask(self, index: int, sql: str) -> list[tuple[Any, ...]]:
        if index not in self.readers:
            self.readers[index] = sqlite3.connect(self.home / f"{index}.db", isolation_level=None)
        return self.readers[index].execute(sql).fetchall()


PLACES = "SELECT vshard, place FROM horae_vshards"
EXPECTED = "SELECT id FROM horae_parcels WHERE role = 'expected'"
PACKED = "SELECT parcel, content FROM horae_parcel_rows WHERE name = 'jobs'"
OWNED = (
    "SELECT vshard FROM horae_vshards JOIN horae_cluster ON place = number "
    f"WHERE state = 'owned' AND vshard IN (SELECT id % {1 << 12} FROM horae_jobs)"
)


@pytest.mark.timeout(120)
def test_every_acknowledged_job_is_in_one_place_whatever_the_order(tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.mkdir()
    make_template(template)
    machine = type("Told", (Stories,), {"template": template, "folder": tmp_path})
    limits = settings(
        max_examples=8,
        stateful_step_count=25,
        deadline=None,
        phases=[Phase.generate],  # a story that fails is short enough, and a shorter one takes minutes to find
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(machine, settings=limits)
