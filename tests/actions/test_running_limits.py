"""Limits over all, of groups and of queues: who says so, and what holds (S3-53)."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from horae.actions.jobs import claims, jobs, queues
from horae.actions.jobs.reasons import why
from horae.actions.jobs.running_limits import declare_limits, list_limits, reset_limit, set_limit
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.clock import SystemDice
from horae.core.jobs.job import Filter
from horae.core.jobs.running_limits import LimitSource, RunningLimit, Source
from horae.core.schedules.schedule import Schedule
from horae.errors import InvalidInput, InvalidName
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.builders import a_request
from horae.testing.clock import VirtualClock
from tests.support.refusals import refused

NIGHT = "group:night"


@pytest.fixture
def stored(database_url: str, clock: VirtualClock) -> Iterator[World]:
    """A world on each database."""
    engine = create_store_engine(database_url)
    migrate(engine)
    store = open_store(engine)
    yield World(store, clock, SystemDice())
    store.close()


def declared(world: World, app: str, source: Source = "code", **limits: int) -> list[str]:
    named = {name.replace("_", ":"): most for name, most in limits.items()}
    return declare_limits(world, app, {name: LimitSource(name, app, source, most) for name, most in named.items()})


def holds(world: World, name: str) -> tuple[int | None, str | None]:
    found = next((each for each in list_limits(world) if each.name == name), RunningLimit(name))
    return found.max_running, found.source


def claimed(world: World) -> int:
    return len(claims.pull(world, worker_id="w"))


def test_what_is_set_by_hand_wins_over_file_and_code_until_it_is_reset(stored: World) -> None:
    declared(stored, "shop", "file", group_night=3)
    assert holds(stored, NIGHT) == (3, "file")

    set_limit(stored, NIGHT, 1)
    declared(stored, "shop", "code", group_night=5)
    assert holds(stored, NIGHT) == (1, "api")

    set_limit(stored, NIGHT, None)
    assert holds(stored, NIGHT) == (None, "api")

    assert reset_limit(stored, NIGHT).max_running == 5
    assert holds(stored, NIGHT) == (5, "code")


def test_a_lifted_limit_of_a_file_lets_jobs_run(stored: World) -> None:
    declared(stored, "shop", "file", **{"global": 1})
    jobs.enqueue_many(stored, [a_request() for _ in range(3)])
    assert claimed(stored) == 1

    set_limit(stored, "global", None)

    assert claimed(stored) == 2


def test_of_two_applications_the_smaller_limit_holds_and_each_forgets_only_its_own(stored: World) -> None:
    declared(stored, "shop", group_night=3)
    declared(stored, "mail", group_night=2)
    assert holds(stored, NIGHT) == (2, "code")

    assert declared(stored, "mail") == [NIGHT]

    assert holds(stored, NIGHT) == (3, "code")
    assert declared(stored, "shop", group_night=3) == []


def test_a_group_runs_no_more_than_its_limit_and_the_list_says_how_many_run(stored: World, clock: VirtualClock) -> None:
    for key in ("a", "b", "c"):
        schedules.create(stored, Schedule(key, "work", "every", "60", group="night"))
    declared(stored, "shop", "file", group_night=2)
    clock.advance(timedelta(seconds=60))
    firing.fire_due(stored)

    assert claimed(stored) == 2
    assert [(each.name, each.max_running, each.running) for each in list_limits(stored)] == [(NIGHT, 2, 2)]


def test_a_queue_s_own_verb_sets_the_same_limit(world: World) -> None:
    queues.limit_queue(world, "mail", 4, actor="ann")

    assert holds(world, "queue:mail") == (4, "api")
    queues.pause_queue(world, "mail")
    declared(world, "shop", queue_mail=9)
    assert queues.resume_queue(world, "mail").max_running == 4
    reset_limit(world, "queue:mail")
    assert queues.get_queue(world, "mail").max_running == 9


def test_a_limit_says_who_set_it(world: World) -> None:
    set_limit(world, NIGHT, 3, actor="ann", reason="the nights are short")
    set_limit(world, NIGHT, 3, actor="ann")
    set_limit(world, NIGHT, None, actor="ben")

    entries = world.store.read(lambda tx: tx.audit.find(object_id=NIGHT, limit=9, before=None))
    assert [(entry.actor, entry.reason, entry.before, entry.after) for _, entry in entries] == [
        ("ben", None, {"max_running": 3, "source": "api"}, {"max_running": None, "source": "api"}),
        (
            "ann",
            "the nights are short",
            {"max_running": None, "source": None},
            {"max_running": 3, "source": "api"},
        ),
    ]


@pytest.mark.parametrize("most", [0, -1, 1_000_001, True])
def test_a_limit_that_could_not_be_kept_is_refused(world: World, most: int) -> None:
    with pytest.raises(InvalidInput):
        set_limit(world, "global", most)


@pytest.mark.parametrize("name", ["", "globals", "night", "group", "key:x"])
def test_a_name_that_names_no_limit_is_refused(world: World, name: str) -> None:
    with refused(InvalidInput, "limit_scope_unknown"):
        set_limit(world, name, 1)


@pytest.mark.parametrize("name", ["group:", "queue: ", "group:a b"])
def test_a_group_or_queue_that_cannot_be_one_is_refused(world: World, name: str) -> None:
    with pytest.raises(InvalidName):
        reset_limit(world, name)


def test_a_job_that_waits_for_a_limit_says_which(world: World, clock: VirtualClock) -> None:
    for key in ("a", "b"):
        schedules.create(world, Schedule(key, "work", "every", "60", group="night"))
    set_limit(world, NIGHT, 1)
    clock.advance(timedelta(seconds=60))
    firing.fire_due(world)
    claimed(world)
    [held] = jobs.find(world, Filter(states=("queued",)))
    other = jobs.enqueue(world, a_request()).job
    set_limit(world, "global", 1)

    answer = {each.code: each.text for each in (*why(world, held), *why(world, other))}
    assert answer["group_limit"] == "its group night runs at most 1 at once, and 1 are running"
    assert "global_limit" not in answer  # what ran before the limit was set is not counted under it
    claimed(world)
    last = jobs.enqueue(world, a_request()).job
    assert [each.text for each in why(world, last) if each.code == "global_limit"] == [
        "at most 1 jobs run at once over all, and 1 are running"
    ]
