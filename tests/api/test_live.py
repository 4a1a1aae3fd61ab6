"""The pulse, through all four senders."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from horae.actions.jobs import jobs
from horae.api.live import PartsChanged, Pulse
from horae.core.pulse import PARTS, TENANT_PARTS
from horae.testing.builders import a_request
from tests.api.conftest import Sent
from tests.support.serving import Served


@contextmanager
def enqueueing(served: Served) -> Iterator[None]:
    """Something happens again and again, for as long as the block runs."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.2):
            jobs.enqueue(served.world, a_request(queue="pulse"))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_marks_tell_that_something_changed(rooms: Sent, served: Served) -> None:
    before = rooms.house.live.get()
    jobs.enqueue(served.world, a_request(queue="pulse"))
    after = rooms.house.live.get()

    assert isinstance(before, Pulse)
    assert set(before.marks) == set(PARTS)
    assert before.marks["jobs"] != after.marks["jobs"]
    assert rooms.alice.live.get().marks == {}


@pytest.mark.slow
def test_what_changes_is_followed(rooms: Sent, served: Served) -> None:
    changes = rooms.house.live.follow()
    with enqueueing(served):
        found = [next(changes) for _ in range(2)]
    changes.close()

    assert all(isinstance(each, PartsChanged) for each in found)
    assert all("jobs" in each.parts for each in found)
    assert (found[1].at - found[0].at).total_seconds() >= 0.4


@pytest.mark.slow
@pytest.mark.parametrize("rooms", ["local"], indirect=True)
def test_a_tenant_is_told_to_look_again(rooms: Sent) -> None:
    changes = rooms.alice.live.follow()
    assert next(changes).parts == TENANT_PARTS
    changes.close()
