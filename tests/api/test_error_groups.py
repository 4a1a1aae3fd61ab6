"""Every operation of error groups, through all four senders."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.machinery import serve_due
from horae.actions.jobs.requests import Request
from horae.actions.roll_up import roll_up
from horae.api.error_groups import ErrorGroup
from horae.clock import SystemDice
from horae.core import error_groups as core
from horae.core.jobs.masking import mask_text as mask
from horae.core.jobs.retry import Retry
from horae.errors import InvalidInput, NotAllowed, NotFound
from horae.ports.workers import Node
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

names = (f"pay{number}" for number in count())
TENANT = {"owner": "alice"}


def die(served: Served, handler: str, *errors: str, owner: str = "system", worker: str = "w1") -> list[str]:
    """Let jobs die now, and group their errors as if two minutes had passed."""
    world = served.world
    dead = []
    for error in errors:
        job_id = jobs.enqueue(world, Request(handler, queue=handler, owner=owner, retry=Retry.none())).id
        whose = None if owner == "system" else owner
        [job] = claims.pull(world, worker_id=worker, queues=[handler], owner=whose)
        endings.fail(world, job.id, job.token, error)
        dead.append(job_id)
    clock = VirtualClock(world.clock.now() + timedelta(minutes=3))
    later = World(world.store, clock, SystemDice())
    while roll_up(later):
        continue
    return dead


def test_failures_with_one_cause_are_one_group(rooms: Sent, served: Served) -> None:
    handler = next(names)
    node = Node("w1", "host", 1, "1", served.world.clock.now(), served.world.clock.now(), {}, release="2030.1")
    served.world.store.transact(lambda tx: tx.nodes.put(node))
    dead = die(served, handler, "ValueError: order 17 is gone", "ValueError: order 18 is gone password=hunter2hunter2")
    served.world.store.transact(lambda tx: tx.nodes.remove("w1"))

    found = list(rooms.house.error_groups.list(handler=handler))
    assert len(found) == 2  # the second says more than the first
    [group] = [each for each in found if each.title == "ValueError: order <n> is gone"]
    assert isinstance(group, ErrorGroup)
    assert (group.count, group.kind, group.owner, group.muted) == (1, "ValueError", "system", False)
    assert (group.sample_job, group.message) == (dead[0], "ValueError: order 17 is gone")
    assert (group.first_release, group.last_release) == ("2030.1", "2030.1")
    assert not [each for each in found if "hunter2" in each.message + each.title]

    die(served, handler, "ValueError: order 19 is gone", worker="w9")
    again = rooms.house.error_groups.get(group.fingerprint)
    assert (again.count, again.message, sum(again.days.values())) == (2, "ValueError: order 19 is gone", 2)
    assert (again.first_seen, again.first_release, again.last_release) == (group.first_seen, "2030.1", "2030.1")
    assert "w1" not in [each.id for each in rooms.house.workers.list()]


def test_a_muted_group_that_grows_stays_muted(rooms: Sent, served: Served) -> None:
    handler = next(names)
    die(served, handler, "KeyError: 'a'")
    [group] = rooms.house.error_groups.list(handler=handler)

    until = served.world.clock.now() + timedelta(days=1)
    muted = rooms.house.error_groups.mute(group.fingerprint, reason="known", until=until)
    die(served, handler, "KeyError: 'b'")
    seen = rooms.house.error_groups.get(group.fingerprint)

    assert (muted.muted, muted.mute_reason, muted.muted_until) == (True, "known", until)
    assert (seen.count, seen.muted) == (2, True)
    assert list(rooms.house.error_groups.list(handler=handler, muted=False)) == []
    entries = rooms.house.audit.list(object_id=group.fingerprint)
    assert [(each.verb, each.reason) for each in entries] == [("mute", "known")]
    unmuted = rooms.house.error_groups.unmute(group.fingerprint)
    assert (unmuted.muted, unmuted.muted_at) == (False, None)
    with refused(InvalidInput, "mute_reason_missing"):
        rooms.house.error_groups.mute(group.fingerprint, reason=" ")
    with refused(InvalidInput, "mute_passed"):
        rooms.house.error_groups.mute(group.fingerprint, reason="x", until=until - timedelta(days=2))


def test_retry_begins_an_act_that_revives_the_dead_jobs_of_the_group_alone(rooms: Sent, served: Served) -> None:
    handler = next(names)
    dead = die(served, handler, "KeyError: 'a'", "KeyError: 'b'", "TypeError: other", "KeyError: 'c'")
    [group] = [each for each in rooms.house.error_groups.list(handler=handler) if each.kind == "KeyError"]
    where = f"state:dead fingerprint:{group.fingerprint}"
    listed = {each.id for each in rooms.house.jobs.list(where=where)}
    preview = rooms.house.acts.preview("revive", where)

    begun = rooms.house.error_groups.retry(group.fingerprint, reason="fixed")
    work(served)
    done = rooms.house.acts.get(begun.id)

    assert (listed, preview.matched) == (set(dead) - {dead[2]}, 3)
    assert (begun.verb, begun.matched, begun.reason, begun.more) == ("revive", 3, "fixed", False)
    assert (done.state, done.changed, done.skipped) == ("done", 3, 0)
    states = [rooms.house.jobs.get(each).state for each in dead]
    assert states == ["queued", "queued", "dead", "queued"]
    [entry] = [each for each in rooms.house.audit.list(object_id=dead[0]) if each.verb == "revive"]
    assert (entry.reason, entry.after["act"]) == ("fixed", begun.id)


def work(served: Served) -> None:
    """Do what jobs of Horae's own are due to do."""
    while serve_due(served.world, "w"):
        continue


def test_the_group_of_what_cannot_be_told_apart_is_not_retried(rooms: Sent, served: Served) -> None:
    now = served.world.clock.now()
    mixed = core.ErrorGroup("system", core.OTHER, "", "", "many", "", "", 1, now, now, 1, 1)
    served.world.store.transact(lambda tx: tx.error_groups.put(mixed))

    with refused(NotAllowed, "error_group_mixed"):
        rooms.house.error_groups.retry(core.OTHER)
    with refused(NotFound, "error_group_unknown"):
        rooms.house.error_groups.retry("0" * 32)


def test_tenants_see_and_act_on_their_own_groups_only(rooms: Sent, served: Served) -> None:
    handler = next(names)
    die(served, handler, "KeyError: 'a'")
    die(served, handler, "KeyError: 'a'", owner="alice")

    [hers] = rooms.alice.error_groups.list(handler=handler)
    everybody = list(rooms.house.error_groups.list(handler=handler))

    assert (hers.owner, hers.count, len(everybody)) == ("alice", 1, 2)
    begun = rooms.alice.error_groups.retry(hers.fingerprint)
    work(served)
    assert (begun.owner, rooms.alice.acts.get(begun.id).changed) == ("alice", 1)
    assert [each.state for each in rooms.house.jobs.list(handler=handler, owner="system")] == ["dead"]
    assert rooms.house.error_groups.get(hers.fingerprint).owner == "system"
    assert rooms.house.error_groups.get(hers.fingerprint, **TENANT).owner == "alice"
    with refused(NotFound, "tenant_unknown"):
        rooms.alice.error_groups.get(hers.fingerprint, owner="bob")
    with refused(NotFound, "error_group_unknown"):
        rooms.alice.error_groups.mute("0" * 32, reason="x")


def test_groups_come_page_by_page(rooms: Sent, served: Served) -> None:
    handler = next(names)
    die(served, handler, "A: x", "B: x", "C: x", "D: x", "E: x")

    whole = list(rooms.house.error_groups.list(handler=handler))
    first = rooms.house.error_groups.list(handler=handler).page(limit=2)
    second = rooms.house.error_groups.list(handler=handler).page(first.next_cursor, limit=2)
    third = rooms.house.error_groups.list(handler=handler).page(second.next_cursor, limit=2)

    assert [*first.items, *second.items, *third.items] == whole
    assert len(whole) == 5
    assert third.next_cursor is None


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("login failed, password=abc123xyz", "login failed, password=…"),
        ("header Authorization: Bearer abcdefghijk", "header Authorization: Bearer …"),
        ("postgresql://ann:secret@host/db refused", "postgresql://ann:…@host/db refused"),
        ("order 17 is gone", "order 17 is gone"),
    ],
)
def test_messages_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked
