"""The same on SQLite, PostgreSQL and MariaDB: the stories, and a focus that the database itself keeps single."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError

from horae.actions.attention import events, inbox, journal, lanes, queries, turns
from horae.actions.attention.journal_chain import seal_left
from horae.actions.jobs.machinery import serve_due
from horae.app import Horae
from horae.attention import Act, Attention, Control, Done, Facts, Policy, Turn
from horae.core.timeouts import Timeouts
from horae.runtime.lanes.spec import Step
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.attention.checker import look, unaccounted, unfinished, wrong_with
from tests.attention.stories import MINUTES, an_agent

LEASE = timedelta(seconds=30)
CAREFUL = Control(must_confirm=frozenset({"refund"}))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(database_url: str, clock: VirtualClock) -> Iterator[Horae]:
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    with Horae(database_url, clock=clock) as app:
        yield app


def test_the_story_of_document_002(app: Horae, clock: VirtualClock) -> None:
    agent, pager = an_agent(app, must_confirm=frozenset({"refund"}))
    agent.add("report", priority=40)
    agent.add("refund", priority=30)
    agent.post("db.down", {"id": "db-1"}, event_id="pd-1")
    agent.post("db.down", {"id": "db-1"}, event_id="pd-1")
    agent.run()
    assert pager.paged == ["alice"]
    clock.advance(10 * MINUTES)
    agent.run()
    agent.post("ack:db-1", {"by": "bob", "words": "я слышу 👍"})
    for _, (wait, *_) in agent.snapshot().waiting:
        if wait.kind == "confirm":
            agent.confirm(wait.number, True, actor="user/carol")
    agent.run()

    scene = look(app.world, "ops", controls=(CAREFUL,))
    assert pager.paged == ["alice", "bob", "refund 40 to c-17"]
    assert {task.state for task in scene.tasks} == {"completed"}
    assert [*wrong_with(scene), *unfinished(scene), *unaccounted(scene, 2)] == []


def test_a_context_goes_back_byte_by_byte(app: Horae) -> None:
    agent, seen = Attention("keeper", app), list[Any]()
    kept = {"z": 1, "a": [1.5, None, True, "ü€😀 \\ \" '"], "": {"nested": {"deep": []}}, "long": "x" * 70_000}

    @agent.action(effect="idempotent")
    def nothing(step: Any) -> Facts:
        return Facts()

    @agent.cognition("any")
    def any_kind(turn: Turn) -> Any:
        seen.append(turn.context)
        return Done() if turn.number == 3 else Act("nothing", context=kept)

    agent.add("any")
    agent.run()

    assert seen == [None, kept, kept]
    assert list(seen[1]) == list(kept)
    assert wrong_with(look(app.world, "keeper")) == []


def test_invariant_01_the_database_refuses_a_second_running_row(app: Horae) -> None:
    """Whatever the code does: neither a second focus nor a running row that is not the focus can be written."""
    agent, _ = an_agent(app)
    agent.add("report")
    agent.add("report")
    drive = lanes.acquire(app.world, "ops", "me", lease=LEASE)
    assert drive is not None
    assert turns.next_work(app.world, drive, Control(), Policy()) is not None

    for change in ("state = 'running', focus = lane_id", "state = 'running'", "focus = lane_id + 1"):
        with pytest.raises((IntegrityError, DBAPIError)), app.engine.begin() as connection:
            connection.execute(text(f"UPDATE horae_tasks SET {change} WHERE state = 'ready'"))

    other, _ = an_agent(app, name="other")  # another lane has a focus of its own
    other.add("report")
    second = lanes.acquire(app.world, "other", "me", lease=LEASE)
    assert second is not None
    assert turns.next_work(app.world, second, Control(), Policy()) is not None
    assert wrong_with(look(app.world, "ops")) == wrong_with(look(app.world, "other")) == []


def test_what_the_database_refuses_to_a_transactional_action_is_a_fact_and_not_an_outage(app: Horae) -> None:
    """Section 3.2: an action that raises is not a failure of its task; cognition decides. All it wrote is undone."""
    with app.engine.begin() as connection:
        connection.execute(text("CREATE TABLE booking (seat VARCHAR(9) PRIMARY KEY)"))
        connection.execute(text("INSERT INTO booking VALUES ('12A')"))
    agent, heard = Attention("travel", app), list[str]()

    @agent.action(effect="transactional")
    def book(step: Any, connection: Any, sessions: list[str]) -> Facts:
        for session in sessions:
            connection.execute(text("INSERT INTO booking VALUES (:seat)"), {"seat": session})
        return Facts()

    @agent.cognition("trip")
    def trip(turn: Turn) -> Any:
        heard.extend(fact.kind for fact in turn.facts)
        if turn.facts.last("action_ok"):
            return Done()
        return Act("book", {"sessions": ["7C"] if turn.facts.last("action_failed") else ["1B", "12A"]})

    agent.add("trip")
    agent.run()

    with app.engine.begin() as connection:
        assert sorted(connection.execute(text("SELECT seat FROM booking")).scalars()) == ["12A", "7C"]
    assert heard == ["started", "action_failed", "action_ok"]
    assert wrong_with(look(app.world, "travel")) == []


def test_of_many_who_want_to_drive_a_lane_one_does(app: Horae) -> None:
    agent, _ = an_agent(app)
    agent.add("report")
    start, won = Barrier(6), list[Any]()

    def want(number: int) -> None:
        start.wait()
        drive = lanes.acquire(app.world, "ops", f"driver-{number}", lease=LEASE)
        if drive is not None:
            won.append(drive)

    crowd = [Thread(target=want, args=(number,)) for number in range(6)]
    for each in crowd:
        each.start()
    for each in crowd:
        each.join()

    assert len(won) == 1
    assert turns.next_work(app.world, won[0], Control(), Policy()) is not None


def test_events_from_everywhere_at_once_are_all_kept(app: Horae) -> None:
    """Invariant 8, and a lane that is made by whoever comes first."""
    agent, _ = an_agent(app)
    start = Barrier(4)

    def post(number: int) -> None:
        start.wait()
        for count in range(10):
            agent.post("noise" if count % 2 else "kept", event_id=f"e{count if count < 5 else (number, count)}")

    crowd = [Thread(target=post, args=(number,)) for number in range(4)]
    for each in crowd:
        each.start()
    for each in crowd:
        each.join()

    scene = look(app.world, "ops")
    assert unaccounted(scene, 5 + 4 * 5) == []
    assert wrong_with(scene) == []


def test_what_happens_in_a_lane_that_nobody_drives_is_sealed_as_it_is_written(app: Horae) -> None:
    inbox.add(app.world, "a", "report")
    events.post(app.world, "a", "news")

    found = journal.verify(app.world, "a")
    assert (found.is_sound, found.sealed) == (True, found.lines)
    assert seal_left(app.world) == 0


def test_a_driver_seals_what_it_wrote_before_it_leaves(app: Horae) -> None:
    drive = lanes.acquire(app.world, "a", "d", lease=LEASE)
    assert drive is not None
    inbox.add(app.world, "a", "report")
    assert journal.verify(app.world, "a").sealed < journal.verify(app.world, "a").lines

    lanes.let_go(app.world, drive)

    found = journal.verify(app.world, "a")
    assert (found.is_sound, found.sealed) == (True, found.lines)


def test_what_a_dead_driver_left_is_sealed_by_any_worker(app: Horae) -> None:
    """As one of its chores, where nobody writes in the lane again."""
    for lane in ("a", "b"):
        assert lanes.acquire(app.world, lane, "d", lease=LEASE) is not None
        inbox.add(app.world, lane, "report")

    assert seal_left(app.world) == 4
    assert seal_left(app.world) == 0
    for lane in ("a", "b"):
        found = journal.verify(app.world, lane)
        assert (found.is_sound, found.sealed) == (True, found.lines)


def test_lines_after_any_number_are_none(app: Horae) -> None:
    inbox.add(app.world, "a", "report")

    assert journal.read_journal(app.world, "a", since=10**30) == []
    assert len(journal.read_journal(app.world, "a", since=0)) == 2


def test_a_transactional_action_cannot_commit_by_itself(app: Horae) -> None:
    """I14: its effect and its record are committed together, or neither is."""
    heard: list[str] = []
    agent = Attention("ops", app)
    with app.engine.begin() as connection:
        connection.execute(text("CREATE TABLE booking (seat VARCHAR(9))"))

    @agent.action(effect="transactional")
    def book(step: Step, connection: Any, *, commits: bool) -> Facts:
        connection.execute(text("INSERT INTO booking VALUES ('1A')"))
        if commits:
            connection.commit()
        return Facts()

    @agent.cognition("trip")
    def trip(turn: Turn) -> Any:
        heard.extend(fact.kind for fact in turn.facts)
        return Act("book", {"commits": turn.number == 1}) if turn.number < 3 else Done()

    agent.add("trip")
    agent.run()

    with app.engine.connect() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM booking")).scalar() == 1
    assert heard == ["started", "action_failed", "action_ok"]
    assert agent.verify().is_sound


# -- somebody takes long, or froze -------------------------------------------------------------------------------------

SLEEPS = {"postgresql": "SELECT pg_sleep(2)", "mysql": "SELECT SLEEP(2)"}
SHORT = Timeouts(hot=timedelta(seconds=1), statement=timedelta(seconds=1))


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.server) for kind in ("postgres", "mysql")])
def hasty(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[Horae]:
    """An application on a server, none of whose own statements may take longer than a second."""
    url = request.getfixturevalue(f"{request.param}_database_url")
    engine = create_store_engine(url)
    migrate(engine)
    engine.dispose()
    with Horae(url, clock=clock, timeouts=SHORT) as app:
        yield app


def test_a_transactional_action_may_take_as_long_as_it_says(hasty: Horae) -> None:
    agent = Attention("keeper", hasty)

    @agent.action(effect="transactional", timeout=timedelta(seconds=30))
    def count(step: Any, connection: Any) -> Facts:
        connection.execute(text(SLEEPS[connection.dialect.name]))
        return Facts()

    @agent.cognition("any")
    def any_kind(turn: Turn) -> Any:
        return Done() if turn.number == 2 else Act("count")

    agent.add("any")
    agent.run()

    assert [task.state for task in queries.find_tasks(hasty.world, "keeper")] == ["completed"]


def test_a_lane_that_is_locked_keeps_no_other_lane_from_what_is_due(hasty: Horae, clock: VirtualClock) -> None:
    later = clock.now() + timedelta(minutes=1)
    for lane in ("frozen", "free"):
        inbox.add(hasty.world, lane, "report", start_at=later)
    clock.advance(timedelta(minutes=2))

    with hasty.engine.begin() as connection:
        number = lanes.get_lane(hasty.world, "frozen").number
        connection.execute(text(f"SELECT id FROM horae_lanes WHERE id = {number} FOR UPDATE"))
        assert serve_due(hasty.world, "driver") == 2

        [free] = queries.find_tasks(hasty.world, "free")
    clock.advance(timedelta(minutes=1))
    serve_due(hasty.world, "driver")
    [frozen] = queries.find_tasks(hasty.world, "frozen")

    assert (free.state, frozen.state) == ("ready", "ready")


def test_lanes_in_numbers_and_the_story_of_a_task(app: Horae, clock: VirtualClock) -> None:
    agent, _ = an_agent(app, must_confirm=frozenset({"refund"}))
    agent.add("refund", priority=30)
    agent.run()
    inbox.add(app.world, "other", "report")
    clock.advance(MINUTES)

    seen = {lane.name: tally for lane, tally in queries.summaries(app.world)}
    ((task, _),) = agent.snapshot().waiting
    found, waits, facts = queries.story(app.world, agent.name, task.id)

    assert (dict(seen[agent.name].tasks), dict(seen[agent.name].waits)) == ({"waiting": 1}, {"confirm": 1})
    assert (dict(seen["other"].tasks), seen["other"].focus) == ({"ready": 1}, None)
    assert [seen[name].last.cause for name in (agent.name, "other")] == ["parked", "admitted"]  # type: ignore[union-attr]
    assert (found, [(wait.kind, wait.state) for wait in waits]) == (task, [("confirm", "open")])
    assert [fact.kind for fact in facts] == ["started"]
    assert queries.summaries(app.world, limit=1)[0][0].number < queries.summaries(app.world)[1][0].number
