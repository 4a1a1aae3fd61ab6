"""Lists follow the map of labels: nothing is missing from it, whoever commits late and whoever labels at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from horae.actions.jobs import claims, endings, jobs, lists, queries
from horae.actions.jobs.labels import label_jobs
from horae.actions.jobs.requests import Request
from horae.actions.retention import Retention, clean
from horae.api.here import Here, house
from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.api.senders.local import Local
from horae.clock import SystemDice
from horae.core.jobs.filters import narrow, parse_filter
from horae.core.jobs.job import Filter
from horae.core.jobs.labels import BLOCK, DRAWN_WITHIN, Label
from horae.core.time.instants import micros
from horae.errors import InvalidInput
from horae.ports.world import World
from horae.stores.jobs.insertion import Insertion
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from horae.stores.tables.labels import labels
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON, VirtualClock
from horae.testing.conformance.support import at_once

FILTERS = (
    "queue:mail", "queue:rare", "handler:send", "handler:rare", "tag:red", "tag:blue -state:queued", "object:memory",
    "object:memory/m1", "owner:alice", "owner:alice handler:send", "queue:mail state:succeeded", "queue:nowhere",
    "tag:re*", "handler:send tag:red state:queued,cancelled", "owner:system queue:mail",
)  # fmt: skip


class Steps(VirtualClock):
    """A virtual clock on which a round of labelling comes late enough to mark what the last one saw."""

    def round(self, world: World) -> None:
        self.advance(DRAWN_WITHIN)
        while label_jobs(world):
            continue


@pytest.fixture
def clock() -> Steps:
    return Steps()


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store = open_store(engine)
    yield store
    store.close()


@pytest.fixture
def world(store: SqlStore, clock: Steps, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(lists, "LOOK_BACK", 10)  # without the map, a list would not come far
    return World(store, clock, SystemDice())


def listed(world: World, text: str, limit: int = 7) -> list[str]:
    """Return a list to its end, page by page."""
    wanted = narrow(Filter(), parse_filter(text, now=NOON))
    found: list[str] = []
    before: str | None = None
    while True:
        page, further = jobs.find_page(world, wanted, limit=limit, before=before)
        found += [job.id for job in page]
        if further is None:
            return found
        before = f"job_{further}"


def everything(world: World, text: str) -> list[str]:
    wanted = narrow(Filter(), parse_filter(text, now=NOON))
    return [job.id for job in jobs.find(world, wanted, limit=1000)]


def fill(world: World, count: int) -> None:
    """Enqueue jobs of many kinds, and end some of them."""
    kinds = (
        {"queue": "mail", "tags": ("red",)}, {"queue": "mail"}, {"tags": ("red", "blue")},
        {"handler": "wipe", "owner": "alice", "queue": "mail"}, {"owner": "alice"},
        {"handler": "keep", "object_type": "memory", "object_id": "m1"},
        {"handler": "keep", "object_type": "memory", "object_id": "m2"},
    )  # fmt: skip
    new = [a_new_job(**{"handler": "send", **kinds[index % len(kinds)]}) for index in range(count)]  # type: ignore[arg-type]
    world.store.insert(new, now=NOON)
    for job in claims.pull(world, worker_id="w", queues=["mail", "default"], limit=count // 2):
        endings.ack(world, job.id, job.token)


def test_a_list_along_the_map_has_what_a_look_at_everything_finds(world: World, clock: Steps) -> None:
    jobs.enqueue_many(world, [Request("rare", queue="rare")])
    for _ in range(4):
        fill(world, 60)
        clock.round(world)
    fill(world, 20)  # the map does not reach these

    state = world.store.read(lambda tx: tx.labels.state())
    assert 180 < state.labelled <= 241
    for text in FILTERS:
        assert listed(world, text) == everything(world, text), text


def test_counts_along_the_map_have_what_a_count_of_everything_finds(world: World, clock: Steps) -> None:
    jobs.enqueue_many(world, [Request("rare", queue="rare")])
    for _ in range(4):
        fill(world, 60)
        clock.round(world)
    clock.round(world)
    fill(world, 7)  # the map does not reach these

    for text in (each for each in FILTERS if each != "tag:re*"):
        wanted = narrow(Filter(), parse_filter(text, now=NOON))
        found = queries.count_groups(world, wanted)
        fitting = jobs.find(world, wanted, limit=1000)
        counted = {(each.state, each.queue, each.handler): each.count for each in found.groups}
        assert (counted, found.down_to) == (Counter((j.state, j.queue, j.handler) for j in fitting), None), text


def test_counts_along_the_map_say_how_far_they_reach(
    world: World, clock: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "COUNTED_ALONG", 3)
    made = jobs.enqueue_many(world, [Request(name) for name in ("rare", *["often"] * 7) * 10])
    for _ in range(2):
        clock.round(world)

    found = queries.count_groups(world, Filter(handler="rare"))
    assert ([each.count for each in found.groups], f"job_{found.down_to}") == ([3], made[56].id)
    wide = queries.count_groups(world, Filter(handler="often"))
    assert [each.count for each in wide.groups] == [10]  # of the newest eleven: the look back reaches further


def test_a_rare_job_is_on_the_first_page_however_old_it_is(world: World, clock: Steps) -> None:
    [old] = jobs.enqueue_many(world, [Request("rare")])
    jobs.enqueue_many(world, [Request("often")] * 100)
    for _ in range(2):
        clock.round(world)

    page, further = jobs.find_page(world, Filter(handler="rare"), limit=5)

    assert ([job.id for job in page], further) == ([old.id], None)


def test_a_number_that_is_committed_late_is_not_missing(world: World, store: SqlStore, clock: Steps) -> None:
    """Its transaction drew a low number and is still open while others commit higher ones."""
    if store.dialect.name == "sqlite":
        pytest.skip("there is one writer at a time, so that no number is committed late")
    with store.engine.connect() as connection, connection.begin():
        [late] = Insertion(connection).insert([a_new_job(handler="late")], NOON)
        jobs.enqueue_many(world, [Request("often")] * 3)
        for _ in range(4):
            clock.round(world)
    for _ in range(3):
        clock.round(world)

    assert listed(world, "handler:late") == [f"job_{late.number}"]
    assert store.read(lambda tx: tx.labels.state()).labelled > late.number + 3


def test_a_job_that_is_moved_is_found_in_its_new_queue(world: World, clock: Steps) -> None:
    made = jobs.enqueue_many(world, [Request("send", queue="mail")] * 30)
    for _ in range(2):
        clock.round(world)
    job = jobs.get(world, made[0].id)
    world.store.transact(lambda tx: tx.jobs.move(job, "other"))

    assert listed(world, "queue:other") == [made[0].id]
    assert made[0].id not in listed(world, "queue:mail")


def test_two_processes_that_label_at_once_leave_nothing_out(world: World, clock: Steps) -> None:
    fill(world, 100)
    label_jobs(world)
    clock.advance(DRAWN_WITHIN)

    at_once(4, lambda _: [label_jobs(world) for _ in range(4)])

    assert listed(world, "handler:send") == everything(world, "handler:send")
    assert world.store.read(lambda tx: tx.labels.state()).labelled == 101


def test_a_step_is_bounded_and_the_look_says_when_there_is_something_to_do(
    world: World, clock: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not world.store.peek([]).unlabelled
    fill(world, 40)
    assert world.store.peek([]).unlabelled
    monkeypatch.setattr("horae.actions.jobs.labels.AT_ONCE", 16)

    assert [label_jobs(world)] == [False]  # what is seen now is marked by a later step
    clock.advance(DRAWN_WITHIN)
    assert [label_jobs(world) for _ in range(5)] == [True, True, True, True, False]
    assert not world.store.peek([]).unlabelled


def test_the_map_forgets_jobs_that_are_gone(world: World, clock: Steps) -> None:
    jobs.enqueue_many(world, [Request("send")] * (3 * BLOCK))
    for _ in range(2):
        clock.round(world)
    for job in claims.pull(world, worker_id="w", limit=2 * BLOCK):
        endings.ack(world, job.id, job.token)
    clock.advance(timedelta(days=400))

    for _ in range(5):
        clean(world, Retention(), limit=100)

    with world.store.engine.connect() as connection:  # type: ignore[attr-defined]
        assert connection.execute(select(func.min(labels.c.block))).scalar_one() >= 2
    assert len(listed(world, "handler:send")) == BLOCK


def test_blocks_of_a_label_are_read_from_the_highest_number_on(world: World, clock: Steps) -> None:
    jobs.enqueue_many(world, [Request("send")] * 100)
    for _ in range(2):
        clock.round(world)

    def read(before: int | None) -> list[int]:
        return world.store.read(lambda tx: tx.labels.members(Label("handler", "send"), before=before, limit=1))

    assert read(None) == list(range(100, 95, -1))
    assert read(97) == [96]
    assert read(96) == list(range(95, 63, -1))


# -- the time of end -------------------------------------------------------------------------------------------------


def by_end(world: World, text: str, limit: int) -> list[str]:
    rooms: Rooms[Sender] = Rooms(Local(lambda: Here(world, house("test"))))
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = rooms.jobs.list(where=text).page(cursor, limit=limit)
        found += [job.id for job in page.items]
        if page.next_cursor is None:
            return found
        cursor = page.next_cursor


def end_some(world: World, clock: Steps) -> list[str]:
    """End thirty jobs in an order of their own, some together and some by dying; return them, the last end first."""
    made = jobs.enqueue_many(world, [Request("send")] * 40)
    ended: list[tuple[int, int]] = []
    taken = {job.number: job for job in claims.pull(world, worker_id="w", limit=40)}
    for place, index in enumerate((step * 7) % 40 for step in range(30)):
        job = taken[made[index].number]
        clock.advance(timedelta(seconds=place % 3))
        if place % 5 == 4:
            endings.fail(world, job.id, job.token, "no", final=True)
        else:
            endings.ack(world, job.id, job.token)
        found = jobs.get(world, job.id)
        assert found.finished_at is not None
        ended.append((micros(found.finished_at), job.number))
    return [f"job_{number}" for _, number in sorted(ended, reverse=True)]


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_a_list_by_time_of_end_begins_with_the_last_end_and_leaves_nothing_out(
    world: World, clock: Steps, limit: int
) -> None:
    expected = end_some(world, clock)

    assert by_end(world, "ended:>-1h", limit) == expected
    finished = [name for name in expected if jobs.get(world, name).state == "succeeded"]
    assert by_end(world, "ended:>-1h state:succeeded", limit) == finished
    assert by_end(world, "ended:>-1h -state:succeeded", limit) == [name for name in expected if name not in finished]
    assert by_end(world, "ended:>-1h attempt:0", limit) == [
        name for name in expected if jobs.get(world, name).attempt == 0
    ]
    assert by_end(world, "ended:<-1h", limit) == []


def test_a_cursor_of_another_order_is_refused(world: World, clock: Steps) -> None:
    end_some(world, clock)
    rooms: Rooms[Sender] = Rooms(Local(lambda: Here(world, house("test"))))
    cursor = rooms.jobs.list(where="ended:>-1h").page(limit=5).next_cursor

    with pytest.raises(InvalidInput):
        rooms.jobs.list(where="queue:default").page(cursor, limit=5)
