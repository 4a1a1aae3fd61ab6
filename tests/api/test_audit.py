"""Every operation of the audit, through all four senders."""

from __future__ import annotations

from dataclasses import fields
from itertools import count

from horae.api.audit import AuditEntry, Verification, verify_export
from horae.core.audit.entries import Entry
from horae.core.audit.exports import write_line
from horae.errors import Forbidden, InvalidInput, NotFound
from tests.api.conftest import Sent
from tests.support.refusals import refused

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
    with refused(NotFound, "tenant_unknown"):
        rooms.alice.audit.list(owner="system").page()
    with refused(InvalidInput, "cursor_invalid"):
        rooms.house.audit.list().page("nonsense")


def test_chains_are_verified(rooms: Sent) -> None:
    rooms.house.queues.pause(next(names))
    found = rooms.house.audit.verify()
    one = rooms.house.audit.verify(owner="system")

    assert isinstance(found, Verification)
    assert (found.sound, one.sound) == (True, True)
    assert one.chains == tuple(each for each in found.chains if each.owner == "system")
    with refused(Forbidden, "scope_missing"):
        rooms.alice.audit.verify()


def test_a_head_kept_elsewhere_is_compared(rooms: Sent) -> None:
    rooms.house.queues.pause(next(names))
    (kept,) = rooms.house.audit.verify(owner="system").chains
    rooms.house.queues.pause(next(names))

    assert rooms.house.audit.verify(heads={"system": kept.head}).sound
    other = rooms.house.audit.verify(owner="system", heads={"system": "f" * 64})
    assert (other.sound, len(other.chains[0].complaints), other.warnings) == (False, 1, ())


def test_an_export_is_iterated_over_and_proves_itself(rooms: Sent) -> None:
    rooms.house.queues.pause(next(names), reason="数据库\u2028升级")
    lines = list(rooms.house.audit.export())

    found = verify_export(map(write_line, lines))
    assert found.sound
    assert {"alice", "system"} <= {each.owner for each in found.chains}
    assert (lines[0]["export"], lines[-1]["end"]) == ("horae.audit", True)
    assert lines[0]["entries"] == sum("hash" in line for line in lines) == lines[-1]["entries"]
    assert found.chains == rooms.house.audit.verify().chains
    one = list(rooms.house.audit.export(owner="alice"))
    assert [line["chain"] for line in one if "chain" in line] == ["alice"]


def test_a_tenant_exports_its_own_chain(rooms: Sent) -> None:
    lines = list(rooms.alice.audit.export())

    assert {line["owner"] for line in lines if "hash" in line} <= {"alice"}
    assert verify_export(map(write_line, lines)).sound
    with refused(NotFound, "tenant_unknown"):
        list(rooms.alice.audit.export(owner="system"))


def test_every_field_of_an_entry_is_public() -> None:
    stored = {each.name for each in fields(Entry) if not each.metadata.get("beside")}
    assert {each.name for each in fields(AuditEntry)} == stored | {"id"}
