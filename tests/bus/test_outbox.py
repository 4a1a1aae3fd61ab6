"""Every enqueue, end and fire is noted in its own transaction, whichever path it takes (S0-40)."""

from datetime import timedelta

import pytest
from sqlalchemy import create_engine

from horae import Horae
from horae.actions import bus
from horae.actions.audit import find_entries
from horae.actions.jobs import claims, endings
from horae.actions.jobs.requests import Request
from horae.attention import Attention
from horae.core.bus import BusMessage
from horae.core.jobs.job import Outcome
from horae.ports.bus import BusSwitch
from horae.ports.world import World


def waiting(world: World) -> list[BusMessage]:
    return bus.next_messages(world, limit=100)


def types(world: World) -> list[str]:
    return [each.subject.removeprefix("horae.") for each in waiting(world)]


def run_all(world: World, outcome: Outcome) -> None:
    held = claims.claim(world, "mail", 100, worker_id="w", lease=timedelta(seconds=30))
    endings.settle(world, [(job, outcome) for job in held])


def test_an_enqueue_and_its_end_are_noted_once_each(app: Horae) -> None:
    app.jobs.enqueue("send", queue="mail")
    run_all(app.world, Outcome("succeeded"))

    assert types(app.world) == ["job.enqueued.mail", "job.succeeded.mail"]


@pytest.mark.parametrize("count", [1, 2, 300])
def test_a_batch_is_noted_job_by_job_in_its_order(app: Horae, count: int) -> None:
    made = app.enqueue_many([Request("send", queue="mail") for _ in range(count)])

    noted = bus.next_messages(app.world, limit=1000)
    assert [each.body["job"] for each in noted] == [each.id for each in made]


def test_what_is_rolled_back_is_never_told(app: Horae, database_url: str) -> None:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        handle = app.job("other")(lambda: None)
        handle.using(connection=connection).enqueue()
        connection.rollback()
        handle.using(connection=connection).enqueue()
        connection.commit()
    engine.dispose()

    assert len(waiting(app.world)) == 1


def test_a_fire_is_noted_with_its_schedule(app: Horae) -> None:
    app.schedules.create("nightly", handler="send", cron="0 3 * * *", queue="mail")
    fired = app.schedules.trigger("nightly")

    [fire] = [each for each in waiting(app.world) if each.subject.startswith("horae.fire.")]
    assert fire.subject == "horae.fire.ran.mail"
    assert (fire.body["schedule"], fire.body["job"]) == ("nightly", fired.job_id)


def test_jobs_of_horaes_own_are_not_told(app: Horae) -> None:
    Attention("ops", store=app).add("report", delay=timedelta(hours=1))  # a job in the queue of Horae's own starts it

    assert bus.status(app.world).enabled
    assert waiting(app.world) == []


def test_after_switching_off_nothing_is_noted_and_what_was_keeps_its_id(app: Horae) -> None:
    app.jobs.enqueue("send", queue="mail")
    before = waiting(app.world)

    bus.switch_off(app.world, actor="ann")
    app.jobs.enqueue("send", queue="mail")
    assert waiting(app.world) == before

    bus.switch_on(app.world, actor="ann")
    assert waiting(app.world) == before
    verbs = [entry.verb for _, entry in find_entries(app.world, object_type="bus")]
    assert verbs[:3] == ["switch_on_bus", "switch_off_bus", "switch_on_bus"]


def test_a_number_that_was_published_is_never_another_event(app: Horae) -> None:
    ids = set[str]()
    for _ in range(3):
        app.jobs.enqueue("send", queue="mail")
        found = waiting(app.world)
        bus.forget(app.world, [each.number for each in found])
        ids |= {each.headers["ce-id"] for each in found}

    assert len(ids) == 3


def test_exactly_what_was_acknowledged_is_removed(app: Horae) -> None:
    app.enqueue_many([Request("send", queue="mail") for _ in range(4)])
    first, second, third, fourth = waiting(app.world)

    assert bus.forget(app.world, [second.number, fourth.number]) == 2
    assert waiting(app.world) == [first, third]


def test_switching_on_again_makes_what_is_missing(app: Horae) -> None:
    app.world.store.transact(lambda tx: tx.outbox.drop_triggers())
    assert len(bus.status(app.world).missing) == 3

    assert bus.switch_on(app.world).missing == ()
    app.jobs.enqueue("send", queue="mail")
    assert len(waiting(app.world)) == 1


def test_a_database_without_a_bus_notes_nothing(database_url: str) -> None:
    with Horae(database_url) as app:
        app.jobs.enqueue("send")

        found = bus.status(app.world)
        assert (found.enabled, found.waiting, found.missing) == (False, 0, ())


def test_a_database_has_one_name_on_the_bus_whoever_asks_first(app: Horae) -> None:
    named = bus.identify(app.world)
    app.world.store.transact(lambda tx: tx.outbox.set_switch(BusSwitch("another", True, app.world.clock.now(), "bob")))

    found = bus.status(app.world)
    assert (bus.identify(app.world), found.source, found.actor) == (named, named, "bob")


def test_naming_a_database_notes_no_events(sqlite_database_url: str) -> None:
    with Horae(sqlite_database_url) as app:
        named = bus.identify(app.world)
        app.jobs.enqueue("send")

        found = bus.status(app.world)
        assert (found.source, found.enabled, found.waiting) == (named, False, 0)
        assert bus.switch_on(app.world).source == named
