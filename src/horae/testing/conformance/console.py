"""What every store must do for those who look: results of schedules, saved views, and what has changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from horae.actions.jobs import queues
from horae.actions.pulse import read_marks
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules, timetable
from horae.core.jobs.parameters import Parameter
from horae.core.pulse import Marks, Part, changed_parts
from horae.core.views import View
from horae.errors import Conflict
from horae.ports.definitions import StoredDefinition
from horae.ports.store import Store
from horae.ports.workers import Node
from horae.ports.world import World
from horae.testing.builders import a_new_job, a_schedule
from horae.testing.clock import NOON, VirtualClock
from horae.testing.conformance.support import end, put, take
from horae.testing.conformance.world import InVirtualTime, run

MINUTE = timedelta(minutes=1)
VIEW = View("system", "ann", "jobs", "Timeouts", "error:Timeout", NOON, NOON)


class ConsoleConformance(InVirtualTime):
    """Results, views, definitions of forms, marks of what changed."""

    def test_the_last_results_of_several_schedules_come_the_newest_first(
        self, world: World, clock: VirtualClock
    ) -> None:
        numbers = []
        for key, ended in {"s0": ("succeeded", "failed", "succeeded"), "s1": ("succeeded",), "s2": ()}.items():
            numbers.append(schedules.create(world, a_schedule(key)).number)
            for ending in ended:
                clock.advance(MINUTE)
                firing.fire_due(world)
                run(world, ending)
            schedules.pause(world, key)

        found = world.store.read(lambda tx: tx.schedules.results(numbers, limit=2))

        outcomes = [[each.outcome for each in found[number]] for number in numbers]
        assert outcomes == [["succeeded", "failed"], ["succeeded"], []]
        assert found[numbers[1]][0].finished_at == clock.now()

    def test_a_definition_keeps_what_its_handler_takes(self, store: Store) -> None:
        parameters = (Parameter("to", "text"), Parameter("size", "choice", False, "s", ("s", "m"), nullable=True))
        mail = StoredDefinition("mail", "default", False, "shop", NOON, "x", ("to", "from"), parameters, "Send it.")
        store.transact(lambda tx: tx.definitions.put(mail))
        store.transact(lambda tx: tx.definitions.put(StoredDefinition("plain", "default", False, "", NOON, "x")))

        assert store.read(lambda tx: tx.definitions.get("mail")) == mail
        assert store.read(lambda tx: tx.definitions.sensitive(["mail", "plain", "gone"])) == {"mail": ("to", "from")}

    # -- views -----------------------------------------------------------------------------------------------------

    def test_views_are_kept_by_author_room_and_name(self, store: Store) -> None:
        number = store.transact(lambda tx: tx.views.add(VIEW))
        theirs = store.transact(lambda tx: tx.views.add(replace(VIEW, author="bob", shared=True)))
        store.transact(lambda tx: tx.views.add(replace(VIEW, author="bob", name="hidden")))
        changed = replace(VIEW, number=number, filter="queue:mail", updated_at=NOON + MINUTE)
        store.transact(lambda tx: tx.views.put(changed))

        assert store.transact(lambda tx: tx.views.named("system", "ann", "jobs", "Timeouts")) == changed
        found = store.read(lambda tx: tx.views.find("system", "ann", None, limit=10))
        assert [each.number for each in found] == [number, theirs]
        assert store.read(lambda tx: tx.views.find("system", "ann", "audit", limit=10)) == []
        assert store.read(lambda tx: tx.views.count("system", "bob")) == 2
        with pytest.raises(Conflict):
            store.transact(lambda tx: tx.views.add(VIEW))
        store.transact(lambda tx: tx.views.remove(number))
        assert store.read(lambda tx: tx.views.get(number)) is None

    # -- the pulse -------------------------------------------------------------------------------------------------

    def test_marks_differ_for_what_has_changed_and_for_nothing_else(self, world: World, store: Store) -> None:
        seen = read_marks(world)
        assert changed_parts(seen, read_marks(world)) == ()

        put(store, a_new_job())
        seen = self.changed(world, seen, "jobs")
        [job] = take(store, 1)
        seen = self.changed(world, seen, "jobs")
        end(store, job)
        seen = self.changed(world, seen, "jobs", "schedules")
        store.peek([], node=Node("n1", "h", 1, "0", NOON, NOON, {"default": 1}))
        seen = self.changed(world, seen, "workers")
        queues.pause_queue(world, "default")
        after = read_marks(world)
        assert {"audit", "jobs", "schedules", "workers"} <= set(changed_parts(seen, after))

    def changed(self, world: World, before: Marks, *parts: Part) -> Marks:
        after = read_marks(world)
        assert changed_parts(before, after) == parts
        return after

    def test_the_timetable_has_what_happened_and_what_will_by_hour(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule("hourly", "5 * * * *", overlap="allow"))
        schedules.create(world, a_schedule("other", "5 * * * *", overlap="allow", owner="acme"))
        for minutes in (5, 60, 60):
            clock.advance(timedelta(minutes=minutes))
            firing.fire_due(world)
        begin = clock.now().replace(minute=0) - timedelta(hours=2)

        seen = timetable.timetable(world, days=1, past=1, hour=begin)
        hers = timetable.timetable(world, days=1, past=1, owner="acme", hour=begin)
        few = timetable.timetable(world, days=1, past=1, queues=["no-such-queue"])

        assert [(hour.ran, hour.missed, hour.fires) for at, hour in seen.hours.items() if at <= clock.now()] == [
            (2, 0, 0), (2, 0, 0), (2, 0, 0),
        ]  # fmt: skip
        assert sum(hour.fires for hour in seen.hours.values()) == 48
        assert {(each.schedule.key, each.ran, each.missed) for each in seen.entries} == {
            ("hourly", 1, 0),
            ("other", 1, 0),
        }
        assert [each.schedule.key for each in hers.entries] == ["other"]
        assert sum(hour.ran for hour in hers.hours.values()) == 3
        assert (few.hours, few.schedules, few.past_complete) == ({}, 0, True)
