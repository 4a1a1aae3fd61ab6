"""Every operation of the audit, through all four senders."""

from __future__ import annotations

from dataclasses import fields
from itertools import count

import pytest

from horae.api.audit import AuditEntry, Verification
from horae.core.audit.entries import Entry
from horae.errors import Forbidden, InvalidInput, NotFound
from tests.api.conftest import Sent

names = (f"audited{number}" for number in count())


def test_acts_are_listed_newest_first_page_by_page(rooms: Sent) -> None:
    name = next(names)
    rooms.house.queues.pause(name, reason="moving")
    rooms.house.queues.resume(name)
    listing = rooms.house.audit.list(object_type="queue", object_id=name)
    first = listing.page(limit=1)
    rest = listing.page(first.next_cursor, limit=1)

    assert [each.verb for each in listing] == ["resume", "pause"]
    assert (first.items[0].verb, rest.items[0].reason, rest.next_cursor) == ("resume", "moving", None)
    assert isinstance(rest.items[0], AuditEntry)
    assert rest.items[0].after["paused_by"] == rest.items[0].actor
    assert [each.verb for each in rooms.house.audit.list(object_id=name, verb="pause")] == ["pause"]


def test_a_tenant_sees_what_concerns_it(rooms: Sent) -> None:
    assert {each.owner for each in rooms.alice.audit.list()} <= {"alice"}
    with pytest.raises(NotFound):
        rooms.alice.audit.list(owner="system").page()
    with pytest.raises(InvalidInput):
        rooms.house.audit.list().page("nonsense")


def test_chains_are_verified(rooms: Sent) -> None:
    rooms.house.queues.pause(next(names))
    found = rooms.house.audit.verify()
    one = rooms.house.audit.verify(owner="system")

    assert isinstance(found, Verification)
    assert (found.sound, one.sound) == (True, True)
    assert one.chains == tuple(each for each in found.chains if each.owner == "system")
    with pytest.raises(Forbidden):
        rooms.alice.audit.verify()


def test_every_field_of_an_entry_is_public() -> None:
    assert {each.name for each in fields(AuditEntry)} == {each.name for each in fields(Entry)} | {"id"}
