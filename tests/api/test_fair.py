"""Fair queues and weights of owners, through all four senders."""

from __future__ import annotations

from itertools import count

import pytest

from horae.errors import Forbidden, InvalidInput
from tests.api.conftest import Sent
from tests.support.refusals import refused

numbers = count()


@pytest.fixture
def name() -> str:
    return f"fair-{next(numbers)}"


def test_a_queue_is_shared_and_no_longer_shared_and_the_audit_knows(rooms: Sent, name: str) -> None:
    shared = rooms.house.queues.share(name, "owner", reason="a flood")
    seen = rooms.house.queues.get(name)
    listed = {each.name: each.fair for each in rooms.house.queues.list()}
    ended = rooms.house.queues.share(name, None)
    acts = list(rooms.house.audit.list(object_id=name, limit=10))

    assert (shared.fair, seen.fair, listed[name], ended.fair) == ("owner", "owner", "owner", None)
    assert [(each.verb, each.reason) for each in acts] == [("share", None), ("share", "a flood")]
    assert acts[0].before == {"fair": "owner"}


def test_only_an_operator_shares_a_queue_and_only_between_owners(rooms: Sent, name: str) -> None:
    with refused(Forbidden, "scope_missing"):
        rooms.alice.queues.share(name, "owner")
    with refused(InvalidInput, "choice_unknown"):
        rooms.house.queues.share(name, "handler")


def test_an_owner_has_a_weight(rooms: Sent, name: str) -> None:
    assert rooms.house.owners.get(name).weight == 1
    assert rooms.house.owners.put(name, weight=3).weight == 3
    assert rooms.house.owners.get(name).weight == 3
    with refused(InvalidInput, "weight_outside"):
        rooms.house.owners.put(name, weight=0)


def test_why_says_that_owners_take_turns(rooms: Sent, name: str) -> None:
    rooms.house.queues.share(name, "owner")
    job = rooms.house.jobs.enqueue("greet", {}, queue=name)

    reasons = rooms.house.jobs.why(job.id)

    assert {each.code for each in reasons} <= {"due", "no_worker"}
