"""Tokens that were recognised a moment ago: fewer questions to the store, and no longer life for a revoked one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from fastapi.testclient import TestClient

from horae.actions.access.tokens import create_token, revoke_token
from horae.core.access.callers import Caller
from horae.ports.world import World
from horae.service.auth.recognised import Recognised
from horae.service.auth.validity import EVERY
from horae.service.options import Options
from horae.testing.clock import NOON, VirtualClock
from tests.service.conftest import Connect

ALICE = Caller("alice", frozenset({"tasks"}), "token/1", token_id="1", expires_at=NOON + timedelta(hours=1))
JOB = {"handler": "dispatch"}


@dataclass
class Ticks:
    """Seconds that only the test moves."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def options(ticks: Ticks) -> Options:
    return Options(version="test", monotonic=ticks)


def at_noon() -> datetime:
    return NOON


def kept(ticks: Ticks, **limits: int) -> Recognised:
    recognised = Recognised(ticks, **limits)
    recognised.keep("text", ALICE, recognised.begin())
    return recognised


def test_a_caller_is_known_for_less_than_a_second(ticks: Ticks) -> None:
    recognised = kept(ticks)

    assert recognised.find("text", at_noon) == ALICE
    assert recognised.find("other", at_noon) is None
    ticks.now += EVERY.total_seconds()
    assert recognised.find("text", at_noon) is None
    assert timedelta(seconds=1) > EVERY


def test_the_time_counts_from_before_the_store_was_asked(ticks: Ticks) -> None:
    recognised = Recognised(ticks)
    mark = recognised.begin()
    ticks.now += EVERY.total_seconds()

    recognised.keep("text", ALICE, mark)

    assert recognised.find("text", at_noon) is None


def test_an_expired_token_is_not_known(ticks: Ticks) -> None:
    assert kept(ticks).find("text", lambda: NOON + timedelta(hours=1)) is None


def test_what_was_read_before_a_change_is_not_kept(ticks: Ticks) -> None:
    recognised = kept(ticks)
    mark = recognised.begin()

    recognised.forget()
    recognised.keep("text", ALICE, mark)

    assert recognised.find("text", at_noon) is None


def test_the_number_of_callers_has_a_limit_and_no_token_is_kept(ticks: Ticks) -> None:
    recognised = Recognised(ticks, most=3)
    for number in range(5):
        recognised.keep(f"text-{number}", ALICE, recognised.begin())

    assert len(recognised) == 3
    assert "text" not in repr(vars(recognised))
    assert recognised.find("text-0", at_noon) is None
    assert recognised.find("text-4", at_noon) == ALICE


def test_without_a_clock_nothing_is_kept() -> None:
    recognised = Recognised(None)

    recognised.keep("text", ALICE, recognised.begin())

    assert len(recognised) == 0


# -- the service -------------------------------------------------------------------------------------------------------


def holder(world: World, client: TestClient, expires_in: timedelta = timedelta(days=1)) -> str:
    """Make a token for a client, and return its id."""
    token, text = create_token(world, owner="alice", scopes=("tasks",), expires_in=expires_in)
    client.headers["Authorization"] = f"Bearer {text}"
    return token.token_id


def test_a_token_that_another_process_revokes_ends_within_a_second(
    world: World, connect: Connect, ticks: Ticks
) -> None:
    client = connect()
    token_id = holder(world, client)
    assert client.post("/jobs", json=JOB).status_code == 201

    revoke_token(world, token_id)
    ticks.now += EVERY.total_seconds()

    assert client.post("/jobs", json=JOB).status_code == 401
    assert client.get("/jobs").status_code == 401


def test_a_token_that_is_revoked_here_ends_at_once(world: World, connect: Connect) -> None:
    client = connect("system", "admin")
    operator = client.headers["Authorization"]
    token_id = holder(world, client)
    assert client.post("/jobs", json=JOB).status_code == 201

    assert client.delete(f"/tokens/{token_id}", headers={"Authorization": operator}).status_code < 300

    assert client.post("/jobs", json=JOB).status_code == 401


def test_a_token_ends_at_its_hour_however_often_it_is_used(world: World, connect: Connect, clock: VirtualClock) -> None:
    client = connect()
    holder(world, client, expires_in=timedelta(minutes=5))
    assert client.post("/jobs", json=JOB).status_code == 201

    clock.advance(timedelta(minutes=5))

    assert client.post("/jobs", json=JOB).status_code == 401
