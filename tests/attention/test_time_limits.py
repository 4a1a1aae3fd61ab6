"""What takes too long: a transactional action is rolled back, and a lane of a dead driver is waited for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from horae import Horae
from horae.actions.attention import lanes
from horae.attention import Act, Attention, Done, Facts, Step, Turn
from horae.runtime.lanes.lease import Keeper

LIMIT = timedelta(milliseconds=200)
LEASE = timedelta(seconds=1)
BOOK = "INSERT INTO booking (step_key) VALUES (:key)"


@pytest.fixture
def app(database_url: str) -> Iterator[Horae]:
    with Horae(database_url) as app:
        with app.engine.begin() as connection:
            connection.execute(text("CREATE TABLE booking (step_key VARCHAR(64) NOT NULL)"))
        yield app


def an_agent(app: Horae, pause: threading.Event, at_most: float) -> Attention:
    """It books, and then takes longer than it may."""
    agent = Attention("slow", app)

    @agent.action(effect="transactional", timeout=LIMIT)
    def book(step: Step, connection: Any) -> Facts:
        connection.execute(text(BOOK), {"key": step.key})
        pause.wait(at_most)
        return Facts()

    @agent.cognition("trip")
    def trip(turn: Turn) -> Any:
        failed = turn.facts.last("action_failed")
        return Act("book") if failed is None and not turn.facts.last("action_ok") else Done(failed and failed["error"])

    return agent


def bookings(app: Horae) -> int:
    with app.engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM booking")).scalar_one())


def test_a_transactional_action_that_takes_too_long_is_rolled_back(app: Horae) -> None:
    agent = an_agent(app, threading.Event(), at_most=1.0)
    task = agent.add("trip").task.id
    agent.run()
    assert "longer than 0.2 s" in agent.result(task)
    assert bookings(app) == 0
    assert agent.verify().is_sound


@pytest.mark.slow
def test_a_transactional_action_that_never_ends_does_not_hold_the_lane(postgres_database_url: str) -> None:
    with Horae(postgres_database_url) as app:
        with app.engine.begin() as connection:
            connection.execute(text("CREATE TABLE booking (step_key VARCHAR(64) NOT NULL)"))
        ended = threading.Event()
        agent = an_agent(app, ended, at_most=60.0)
        task = agent.add("trip").task.id
        try:
            agent.run()
            assert "longer than 0.2 s" in agent.result(task)
        finally:
            ended.set()
        assert bookings(app) == 0


# -- the lease of another driver ---------------------------------------------------------------------------------------


def a_quick_agent(app: Horae) -> Attention:
    agent = Attention("shared", app, lease=LEASE)
    agent.cognition("quick")(lambda turn: Done())
    return agent


@pytest.mark.slow
def test_a_run_after_a_crash_says_that_it_waits_for_the_lease_and_then_works(
    sqlite_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Horae(sqlite_database_url) as app:
        agent = a_quick_agent(app)
        task = agent.add("quick").task.id
        assert lanes.acquire(app.world, "shared", "dead:1", lease=LEASE) is not None
        with caplog.at_level(logging.WARNING, "horae.attention"):
            agent.run()
        assert agent.task(task).state == "completed"
        assert "driven by dead:1, whose lease ends at 20" in caplog.text


@pytest.mark.slow
def test_a_run_beside_a_living_driver_says_so_and_does_nothing(
    sqlite_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Horae(sqlite_database_url) as app:
        agent = a_quick_agent(app)
        task = agent.add("quick").task.id
        drive = lanes.acquire(app.world, "shared", "alive:1", lease=30 * LEASE)
        assert drive is not None
        keeper = Keeper(app.world, drive, LEASE)
        keeper.start()
        try:
            with caplog.at_level(logging.WARNING, "horae.attention"):
                agent.run()
        finally:
            keeper.stop()
        assert agent.task(task).state == "ready"
        assert "its driver alive:1 is alive" in caplog.text
