"""Who acts in the rooms of an application: ``acting_as`` and ``for_owner``, as a library's user calls them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from horae import Horae
from horae.errors import Forbidden, InvalidInput, NotFound, WaitTimeout
from horae.stores.schema import migrate
from horae.testing import VirtualClock
from tests.support.refusals import refused

PEOPLE = [f"person-{number}" for number in range(8)]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Horae]:
    with Horae(f"sqlite:///{tmp_path / 'horae.db'}", name="shop") as made:
        migrate(made.engine)
        yield made


def actors(app: Horae, verb: str = "pause") -> list[tuple[str, str]]:
    """Who did it and to what, the oldest first."""
    return [(each.actor, each.object_id) for each in app.audit.list(verb=verb)][::-1]


def test_an_application_acts_under_its_own_name(app: Horae) -> None:
    app.queues.pause("mail", reason="moving")

    assert actors(app) == [("app/shop", "mail")]


def test_the_audit_names_the_person_for_whom_the_application_acts(app: Horae) -> None:
    app.acting_as("alice").queues.pause("mail", reason="moving")
    app.queues.pause("sms", reason="moving")

    assert actors(app) == [("alice", "mail"), ("app/shop", "sms")]


def test_the_last_name_given_holds_and_the_rooms_before_keep_theirs(app: Horae) -> None:
    alice = app.acting_as("alice")
    bob = alice.acting_as("bob")
    bob.queues.pause("a")
    alice.queues.pause("b")
    app.queues.pause("c")

    assert actors(app) == [("bob", "a"), ("alice", "b"), ("app/shop", "c")]


def test_rooms_that_are_awaited_act_under_the_same_name(app: Horae) -> None:
    async def pause() -> None:
        await asyncio.gather(*(app.acting_as(person).aio.queues.pause(person) for person in PEOPLE))

    asyncio.run(pause())

    assert sorted(actors(app)) == [(person, person) for person in PEOPLE]


def test_threads_that_act_for_different_people_at_once_do_not_take_each_other_s_name(app: Horae) -> None:
    with ThreadPoolExecutor(len(PEOPLE)) as threads:
        list(threads.map(lambda person: app.acting_as(person).queues.pause(person), PEOPLE))

    assert sorted(actors(app)) == [(person, person) for person in PEOPLE]


def test_rooms_made_in_one_thread_keep_their_name_in_another(app: Horae) -> None:
    alice = app.acting_as("alice")
    with ThreadPoolExecutor(1) as threads:
        threads.submit(alice.queues.pause, "mail").result()

    assert actors(app) == [("alice", "mail")]


@pytest.mark.parametrize("actor_first", [True, False])
def test_an_actor_and_an_owner_hold_together_in_either_order(app: Horae, actor_first: bool) -> None:
    rooms = app.acting_as("bob").for_owner("t1") if actor_first else app.for_owner("t1").acting_as("bob")
    job = rooms.jobs.enqueue("report")
    rooms.jobs.cancel(job.id, reason="not needed")

    assert app.jobs.get(job.id).owner == "t1"
    assert actors(app, "cancel") == [("bob", job.id)]


def test_a_name_does_not_widen_what_an_owner_s_rooms_may_see_and_do(app: Horae) -> None:
    ours = app.jobs.enqueue("report")
    rooms = app.for_owner("t1").acting_as("admin")

    with refused(NotFound, "job_unknown", id=ours.id):
        rooms.jobs.get(ours.id)
    with refused(Forbidden, "scope_missing", needed=["admin"], held=["read", "tasks", "worker"]):
        rooms.queues.pause("mail")
    assert list(rooms.jobs.list()) == []


@pytest.mark.parametrize("name", ["", " ", "two\nlines"])
def test_a_name_that_the_audit_could_not_show_is_refused_at_once(app: Horae, name: str) -> None:
    with refused(InvalidInput, "label_unreadable"):
        app.acting_as(name)
    with refused(InvalidInput, "label_unreadable"):
        app.for_owner(name)


# -- the clock of the application ----------------------------------------------------------------------------------


@pytest.fixture
def timeless(tmp_path: Path) -> Iterator[Horae]:
    with Horae(f"sqlite:///{tmp_path / 'horae.db'}", clock=VirtualClock()) as made:
        migrate(made.engine)
        yield made


def test_a_wait_passes_the_time_of_the_application_s_clock(timeless: Horae) -> None:
    """Under virtual time ten minutes of waiting take no real minutes."""
    job, began = timeless.jobs.enqueue("report"), timeless.world.clock.now()

    with refused(WaitTimeout, "job_not_ended_in_time", id=job.id, state="queued", timeout=600.0):
        timeless.jobs.wait(job.id, timeout=600)

    assert timeless.world.clock.now() - began == pytest.approx(timedelta(minutes=10), abs=timedelta(seconds=1))


def test_a_wait_that_is_awaited_passes_the_same_time(timeless: Horae) -> None:
    job, began = timeless.jobs.enqueue("report"), timeless.world.clock.now()

    async def wait() -> None:
        with refused(WaitTimeout, "job_not_ended_in_time", id=job.id, state="queued", timeout=60.0):
            await timeless.aio.jobs.wait(job.id, timeout=60)

    asyncio.run(wait())

    assert timeless.world.clock.now() - began == pytest.approx(timedelta(minutes=1), abs=timedelta(seconds=1))
