"""A long backlog: a step reads a few of its rows, and chooses as it would among all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from horae import Horae
from horae.actions.attention import endings, inbox, journal, lanes
from horae.actions.attention.focus import contenders
from horae.actions.attention.journal_chain import BATCH, EVERY, seal
from horae.attention import Attention, Done, Policy
from horae.core.attention.lanes import Lane, Task, alive, fold
from horae.core.attention.task import Control, choose
from horae.ports.store import Tx
from horae.testing import LoadedDice, VirtualClock
from tests.support.cases import cases

NOW = VirtualClock().now()
KINDS = ("known", "unknown")


def a_task(random: Random, number: int, lane: int) -> Task:
    since = NOW - timedelta(minutes=random.choice([0, 1, 4, 6, 11, 44, 46, 200, -3]), seconds=random.randrange(60))
    due = NOW + timedelta(hours=random.randrange(5)) if random.random() < 0.3 else None
    over = NOW + timedelta(minutes=random.choice([-1, 1])) if random.random() < 0.2 else None
    return Task(
        0, lane, random.choice(KINDS), "ready", random.choice([10, 38, 40, 41, 45, 49, 50]), created_at=since,
        ready_since=since, due_by=due, expires_at=over,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(cases(10)))
def test_the_few_that_are_read_hold_the_one_that_would_be_chosen_among_all(seed: int) -> None:
    random, policy = Random(seed), Policy()
    with Horae("sqlite://", clock=VirtualClock(), dice=LoadedDice(1)) as app:
        Attention("ops", app).add("known")
        kinds = random.choice([None, '["known"]'])

        def compare(tx: Tx) -> tuple[int | None, int | None, int]:
            lane = replace(tx.attention.lane("ops", "system") or Lane("ops"), kinds=kinds)
            for number in range(random.randrange(1, 40)):
                tx.attention.add(a_task(random, number, lane.number))
            stay = [task for task in tx.attention.live_tasks(lane.number) if lane.knows(task)]
            offered = [task.weighed for task in stay if task.expires_at is None or task.expires_at > NOW]
            few = contenders(tx, lane, NOW, policy)
            best = choose(offered, NOW, Control(), policy)
            found = choose([task.weighed for task in few], NOW, Control(), policy)
            return getattr(best, "number", None), getattr(found, "number", None), len(few)

        best, found, read = app.world.store.transact(compare)
    assert found == best
    assert read <= 2 * 7  # of each priority at most two


def write_lines(app: Horae, agent: Attention, lines: int) -> int:
    """Write so many lines at least, most of them about tasks that have ended; return the lane's number."""

    def put_and_cancel(writer: lanes.LaneWriter) -> int:
        for number in range(lines // 3 + 1):
            added = inbox.put(writer, Task(0, 0, "quick", "created", 40, key=f"k{number}", created_at=NOW), "test").task
            if number % 40:
                endings.end_cancelled(writer, added, "no longer needed")
        return writer.lane.number

    lane = lanes.in_lane(app.world, agent.name, agent.owner, put_and_cancel)
    while seal(app.world, lane):
        pass
    return lane


def test_a_look_at_the_past_reads_the_last_picture_and_the_lines_after_it() -> None:
    with Horae("sqlite://", clock=VirtualClock(), dice=LoadedDice(1)) as app:
        agent = Attention("ops", app)
        lane = write_lines(app, agent, EVERY + 200)
        lines = [*agent.journal(), *agent.journal(since=EVERY)]
        assert app.world.store.read(lambda tx: tx.attention.pictured(lane)) == [EVERY]
        for seq in (1, EVERY - 1, EVERY, EVERY + 1, EVERY + 77, len(lines)):
            past, whole = agent.at(seq), alive(fold(lines[:seq]))
            touched = {(table, number) for table, number, _ in lines[seq - 1].changes}
            ended = {(table, number) for table in past for number in past[table] if number not in whole[table]}
            assert alive(past) == whole, seq
            assert ended <= touched
        assert agent.verify().is_sound


def test_a_lane_that_is_only_posted_to_has_pictures_too() -> None:
    with Horae("sqlite://", clock=VirtualClock(), dice=LoadedDice(1)) as app:
        agent = Attention("ops", app)
        for number in range(EVERY):
            agent.post("ack", event_id=str(number))
        lane = lanes.get_lane(app.world, "ops").number
        assert app.world.store.read(lambda tx: tx.attention.pictured(lane)) == [EVERY]
        assert agent.verify().is_sound


async def test_a_driver_that_always_has_work_seals_all_that_is_written_meanwhile() -> None:
    """One batch every two seconds would fall behind for ever, in a lane that writes more than that."""
    clock = VirtualClock()
    with Horae("sqlite://", clock=clock, dice=LoadedDice(1)) as app:
        agent = Attention("ops", app)
        agent.cognition("quick")(lambda turn: Done())
        driver = agent.driver()
        await driver.step()
        for number in range(2 * BATCH):
            agent.post("ack", event_id=str(number))
        for _ in range(8):
            agent.add("quick")
        clock.advance(timedelta(seconds=2))
        for _ in range(4):
            await driver.step()
        lines = agent.journal(since=BATCH)
        assert agent.snapshot().backlog != ()
        assert sum(line.hash is None for line in lines) < 20
        await driver.close()


def test_a_picture_that_was_changed_is_found() -> None:
    with Horae("sqlite://", clock=VirtualClock(), dice=LoadedDice(1)) as app:
        agent = Attention("ops", app)
        lane = write_lines(app, agent, EVERY + 100)

        def change(tx: Tx) -> None:
            picture = tx.attention.picture(lane, EVERY)
            assert picture is not None
            tx.connection.exec_driver_sql("DELETE FROM horae_journal_pictures")
            tx.attention.keep_picture(replace(picture, tables={**picture.tables, "event": {1: {"state": "pending"}}}))

        app.world.store.transact(change)
        assert agent.verify().complaints == (f"the picture after line {EVERY} differs from the journal",)


def test_a_head_names_the_last_line_and_its_hash() -> None:
    with Horae("sqlite://", clock=VirtualClock(), dice=LoadedDice(1)) as app:
        agent = Attention("ops", app)
        agent.add("quick")
        head = agent.head()
        assert (head.seq, head.hash) == (agent.journal()[-1].seq, agent.journal()[-1].hash)
        assert journal.head(app.world, "ops") == head
        assert lanes.get_lane(app.world, "ops").seq == head.seq
