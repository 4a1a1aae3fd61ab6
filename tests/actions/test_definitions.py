"""What the house's workers store of themselves, and what follows for tenants."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from horae import Horae
from horae.actions import scheduled_tasks
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.definitions import find_definitions, release_held, store_definitions
from horae.actions.jobs.reasons import why
from horae.actions.schedules import schedules
from horae.core.scheduled_tasks.task import Terms, Wish
from horae.errors import InvalidInput, InvalidName
from horae.ports.definitions import StoredDefinition
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.schema import migrate
from horae.testing.builders import a_request, a_schedule
from horae.testing.clock import VirtualClock
from tests.support.refusals import refused

OPEN = StoredDefinition("greet", "default", tenants=True)
SHUT = StoredDefinition("greet", "default")


@pytest.fixture
def world(database_url: str, clock: VirtualClock) -> Iterator[World]:
    with Horae(database_url, clock=clock) as app:
        migrate(app.engine)
        yield app.world


def pulled(world: World, **wanted: object) -> list[str]:
    return [job.id for job in claims.pull(world, worker_id="w1", **wanted)]  # type: ignore[arg-type]


def test_a_definition_says_who_stored_it_and_when(world: World) -> None:
    changed = store_definitions(world, [OPEN], app="shop", actor="system/start")

    assert changed == find_definitions(world)
    [stored] = changed
    assert (stored.name, stored.queue, stored.tenants) == ("greet", "default", True)
    assert (stored.app, stored.stored_by, stored.stored_at) == ("shop", "system/start", world.clock.now())


def test_storing_the_same_again_writes_nothing(world: World, clock: VirtualClock) -> None:
    first = store_definitions(world, [OPEN, StoredDefinition("wipe", "mail")], app="shop")
    clock.advance(timedelta(minutes=1))

    assert store_definitions(world, [OPEN, StoredDefinition("wipe", "mail")], app="shop") == []
    assert find_definitions(world) == first


def test_the_newest_stored_definition_rules(world: World) -> None:
    """Two versions of the code at work: whichever started last has the word, in both directions."""
    for newest in (OPEN, SHUT, OPEN):
        store_definitions(world, [newest])
        jobs.enqueue(world, a_request(owner="alice"))
        assert len(pulled(world)) == (1 if newest.tenants else 0)
        for job in claims.pull(world, worker_id="w1", owner="alice"):
            endings.ack(world, job.id, job.token)


def test_what_is_opened_or_closed_is_audited_and_nothing_else(world: World) -> None:
    for definition in (SHUT, StoredDefinition("greet", "mail"), OPEN, StoredDefinition("greet", "mail", True), SHUT):
        store_definitions(world, [definition], app="shop", actor="token/7")

    entries = world.store.read(lambda tx: tx.audit.find(object_id="greet", limit=10, before=None))
    answer = [(entry.actor, entry.verb, entry.object_type, entry.before.get("tenants")) for _, entry in entries]
    assert answer == [("token/7", "close", "definition", True), ("token/7", "open", "definition", False)]


@pytest.mark.parametrize("definition", [StoredDefinition("", "default"), StoredDefinition("greet", "two words")])
def test_a_definition_with_a_bad_name_is_refused(definition: StoredDefinition, world: World) -> None:
    with pytest.raises(InvalidName):
        store_definitions(world, [OPEN, definition])
    assert find_definitions(world) == []


def test_opening_releases_all_that_was_held_and_wakes_their_queues(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In small transactions; more than one of them is needed here."""
    monkeypatch.setattr("horae.actions.jobs.definitions.RELEASED_AT_ONCE", 10)
    made = jobs.enqueue_many(world, [a_request(owner="alice", queue=queue) for queue in ("a", "b") * 13])
    assert pulled(world, queues=["a", "b"]) == []
    woken: set[str] = set()
    unsubscribe = world.store.subscribe(woken.add)

    store_definitions(world, [OPEN])

    unsubscribe()
    assert woken >= {"a", "b"}
    assert set(pulled(world, queues=["a", "b"])) == {each.id for each in made}
    assert release_held(world) == 0


def test_what_somebody_who_died_did_not_release_is_released_when_the_same_is_stored_again(world: World) -> None:
    """The definition is stored in one transaction and its jobs are released in others; a restart finishes the work."""
    job_id = jobs.enqueue(world, a_request(owner="alice")).id
    assert pulled(world) == []

    def open_only(tx: Tx) -> None:
        tx.definitions.lock()
        tx.definitions.put(replace(OPEN, stored_at=world.clock.now()))

    world.store.transact(open_only)
    assert pulled(world) == []

    assert store_definitions(world, [OPEN]) == []
    assert pulled(world) == [job_id]


def test_why_says_that_a_handler_is_not_open_to_tenants(world: World) -> None:
    job_id = jobs.enqueue(world, a_request(owner="alice")).id
    pulled(world)

    reason = why(world, jobs.get(world, job_id))[0]

    assert reason.code == "closed"
    assert "'greet'" in reason.text
    assert "tenants=True" in reason.text


# -- schedules -------------------------------------------------------------------------------------------------------


def test_a_tenants_schedule_for_a_closed_handler_is_refused(world: World) -> None:
    store_definitions(world, [SHUT])

    with refused(InvalidInput, "handler_not_for_tenants"):
        schedules.create(world, a_schedule(owner="alice"))
    schedules.create(world, a_schedule())  # the house's own

    schedules.create(world, a_schedule("other", owner="alice", handler="unknown"))
    with refused(InvalidInput, "handler_not_for_tenants"):
        schedules.change(world, "other", {"handler": "greet"}, owner="alice")


def test_a_users_task_for_a_closed_handler_is_refused_when_it_is_made_changed_or_considered(world: World) -> None:
    terms = Terms(handlers=("dispatch", "greet"))
    task = scheduled_tasks.create(world, Wish(payload={"text": "x"}), owner="alice", terms=terms).facts.schedule.key
    store_definitions(world, [SHUT])

    with refused(InvalidInput, "handler_not_for_tenants"):
        scheduled_tasks.create(world, Wish(handler="greet"), owner="alice", terms=terms)
    with refused(InvalidInput, "handler_not_for_tenants"):
        scheduled_tasks.change(world, task, Wish(handler="greet"), owner="alice", terms=terms)
    with refused(InvalidInput, "handler_not_for_tenants"):
        scheduled_tasks.consider(world, Wish(handler="greet"), owner="alice", terms=terms)


def test_a_fire_and_a_trigger_of_a_tenant_pass_the_same_check(world: World, clock: VirtualClock) -> None:
    from horae.actions.schedules import fires

    schedules.create(world, a_schedule(owner="alice", overlap="allow"))
    fires.trigger(world, "minutely", owner="alice")
    clock.advance(timedelta(minutes=3))
    fires.fire_due(world)
    fires.backfill(world, "minutely", clock.now() - timedelta(hours=1), clock.now(), owner="alice", dry_run=False)

    assert pulled(world) == []
    held = jobs.find(world, limit=1000)
    assert held
    assert {job.held for job in held} == {"closed"}
    store_definitions(world, [OPEN])
    assert set(pulled(world, limit=1000)) == {job.id for job in held}
