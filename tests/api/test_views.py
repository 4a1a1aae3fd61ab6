"""Every operation of saved views, through all four senders."""

from __future__ import annotations

from itertools import count

import pytest

import horae
from horae.api.views import View
from horae.core.views import MOST
from horae.errors import Conflict, Forbidden, InvalidFilter, InvalidInput, NotFound
from horae.ports.world import World
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

names = (f"view {number}" for number in count())


@pytest.fixture
def name() -> str:
    return next(names)


def test_a_view_is_saved_changed_listed_and_deleted(rooms: Sent, name: str) -> None:
    saved = rooms.house.views.save(name, "queue:mail error:Timeout")
    changed = rooms.house.views.save(name, "queue:sms")
    other = rooms.house.views.save(name, "anything=goes here", room="schedules")
    listed = rooms.house.views.list(room="jobs")
    rooms.house.views.delete(saved.id)

    assert isinstance(saved, View)
    assert (changed.id, changed.filter, changed.created_at) == (saved.id, "queue:sms", saved.created_at)
    assert changed in listed
    assert other not in listed
    assert other in rooms.house.views.list()
    assert saved.id not in [each.id for each in rooms.house.views.list()]
    with refused(NotFound, "view_unknown"):
        rooms.house.views.delete(saved.id)


def test_a_shared_view_is_seen_by_its_tenant_and_by_no_other(rooms: Sent, served: Served, name: str) -> None:
    hers = rooms.alice.views.save(name, "state:dead")
    with horae.Client(served.url, served.token("alice", "tasks")) as colleague:
        before = [each.id for each in colleague.views.list()]
        rooms.alice.views.share(hers.id)
        after = [each.id for each in colleague.views.list()]
        with refused(Forbidden, "view_of_another"):
            colleague.views.delete(hers.id)
        with refused(Forbidden, "view_of_another"):
            colleague.views.share(hers.id, shared=False)
        rooms.alice.views.share(hers.id, shared=False)
        with refused(NotFound, "view_unknown"):
            colleague.views.delete(hers.id)

    assert (hers.id in before, hers.id in after) == (False, True)
    assert hers.id not in [each.id for each in rooms.house.views.list()]
    with refused(NotFound, "view_unknown"):
        rooms.house.views.delete(hers.id)


def test_sharing_is_audited_and_a_private_view_is_not(rooms: Sent, served: Served, name: str) -> None:
    quiet = rooms.house.views.save(name, "")
    loud = rooms.house.views.save(f"{name} b", "queue:mail", shared=True, reason="for the night shift")
    rooms.house.views.share(loud.id, reason="still useful")
    rooms.house.views.delete(loud.id, reason="nobody reads it")
    rooms.house.views.delete(quiet.id)

    assert entries(served.world, loud.id) == [
        ("delete", "nobody reads it"), ("share", "still useful"), ("put", "for the night shift")
    ]  # fmt: skip
    assert entries(served.world, quiet.id) == []


def entries(world: World, view_id: str) -> list[tuple[str, str | None]]:
    found = world.store.read(lambda tx: tx.audit.find(object_id=view_id, limit=10, before=None))
    return [(entry.verb, entry.reason) for _, entry in found]


def test_what_no_room_understands_is_refused(rooms: Sent, name: str) -> None:
    with refused(InvalidFilter, "filter_field_unknown"):
        rooms.house.views.save(name, "colour:red")
    for wrong in ({"room": "kitchen"}, {"room": "audit", "filter": "x" * 2001}, {"room": "audit", "filter": "a\nb"}):
        with pytest.raises(InvalidInput):
            rooms.house.views.save(name, **{"filter": "", **wrong})


def test_a_reader_keeps_own_views_and_shares_none(rooms: Sent, served: Served, name: str) -> None:
    with horae.Client(served.url, served.token("system", "read")) as reader:
        own = reader.views.save(name, "state:dead")
        with refused(Forbidden, "scope_missing"):
            reader.views.save(name, "state:dead", shared=True)
        with refused(Forbidden, "scope_missing"):
            reader.views.share(own.id)
        reader.views.delete(own.id)


@pytest.mark.parametrize("rooms", ["local"], indirect=True)
def test_one_person_has_a_bounded_number_of_views(rooms: Sent, name: str) -> None:
    person = rooms.house.acting_as("a collector")
    for number in range(MOST):
        person.views.save(f"{name} {number}", "")
    person.views.save(f"{name} 0", "queue:mail")
    with refused(Conflict, "too_many_views"):
        person.views.save(f"{name} {MOST}", "")
