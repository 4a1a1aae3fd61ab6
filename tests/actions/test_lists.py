"""Pages of jobs look back over a bounded number of rows, and nothing is left out on the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from horae.actions.jobs import claims, endings, jobs, lists
from horae.actions.jobs.requests import Request
from horae.api.here import Here, house
from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.api.senders.local import Local
from horae.clock import SystemDice
from horae.core.jobs.job import Filter
from horae.ports.store import Store
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock


@pytest.fixture
def world(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store: Store = open_store(engine)
    monkeypatch.setattr(lists, "LOOK_BACK", 10)
    yield World(store, VirtualClock(), SystemDice())
    store.close()


def test_a_page_stops_at_its_bound_and_the_next_goes_on_from_there(world: World) -> None:
    [old] = jobs.enqueue_many(world, [Request("rare")])
    ended = jobs.enqueue_many(world, [Request("often", queue="done")] * 25)
    while taken := claims.pull(world, worker_id="w", queues=["done"], limit=100):
        for job in taken:
            endings.ack(world, job.id, job.token)
    jobs.enqueue_many(world, [Request("often")] * 25)

    seen, before, pages = [], None, 0
    while True:
        found, further = jobs.find_page(world, Filter(handler="rare"), limit=5, before=before)
        seen += [job.id for job in found]
        pages += 1
        if further is None:
            break
        assert isinstance(further, int)
        assert before is None or further < int(before.removeprefix("job_"))
        before = f"job_{further}"

    assert (seen, pages > 1) == ([old.id], True)
    rooms: Rooms[Sender] = Rooms(Local(lambda: Here(world, house("test"))))
    assert [job.id for job in rooms.jobs.list(where="handler:rare")] == [old.id]
    assert len(list(rooms.jobs.list(handler="often"))) == 50
    first = rooms.jobs.list(where="handler:rare").page(limit=5)
    assert (first.items, first.next_cursor is None) == ((), False)
    assert {job.id for job in rooms.jobs.list(state="succeeded")} == {job.id for job in ended}


def test_what_an_index_holds_is_found_however_old_it_is(world: World) -> None:
    [old] = jobs.enqueue_many(world, [Request("rare")])
    [job] = claims.pull(world, worker_id="w", limit=1)
    endings.fail(world, job.id, job.token, "no", final=True)
    jobs.enqueue_many(world, [Request("often")] * 25)

    assert [job.id for job in jobs.find_page(world, Filter(("dead",), handler="rare"))[0]] == [old.id]
    assert len(jobs.find_page(world, Filter(), limit=50)[0]) == 26
