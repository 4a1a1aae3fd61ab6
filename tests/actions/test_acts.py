"""Bulk acts: what they reach, what they skip, how they are steered, and what the audit says of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.jobs import acts, claims, endings, jobs
from horae.actions.jobs.machinery import serve_due
from horae.actions.jobs.requests import Request
from horae.actions.retention import Retention, clean
from horae.clock import SystemDice
from horae.core.jobs.acts import BATCH, MOST_COUNTED, Act
from horae.core.jobs.filters import holds, read_frozen
from horae.core.jobs.job import Filter, Job
from horae.core.jobs.machinery import MACHINERY
from horae.core.jobs.retry import Retry
from horae.errors import InvalidFilter, InvalidInput, NotAllowed, NotFound, ReservedQueue
from horae.ports.store import Store
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.support.refusals import refused

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(database_url: str, clock: VirtualClock) -> Iterator[World]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store: Store = open_store(engine)
    yield World(store, clock, SystemDice())
    store.close()


def put(world: World, count: int = 1, **options: Any) -> list[str]:
    return [made.id for made in jobs.enqueue_many(world, [Request("send", **options)] * count)]


def kill(world: World, *, queue: str = "default") -> list[Job]:
    """Let every due job of a queue die."""
    dead = []
    while taken := claims.pull(world, worker_id="w", queues=[queue], limit=100):
        for job in taken:
            endings.fail(world, job.id, job.token, "TimeoutError: no answer", final=True)
        dead += taken
    return dead


def work(world: World, act: Act) -> Act:
    """Serve jobs of Horae's own until an act rests."""
    for _ in range(1000):
        if not serve_due(world, "w"):
            break
    return acts.get(world, act.id)


def states(world: World, ids: list[str]) -> set[str]:
    return {jobs.get(world, each).state for each in ids}


def entries(world: World, object_id: str) -> list[tuple[str, str, str | None]]:
    found = world.store.read(lambda tx: tx.audit.find(object_id=object_id, limit=100, before=None))
    return [(entry.verb, entry.actor, entry.reason) for _, entry in reversed(found)]


def test_an_act_cancels_every_job_that_fits_and_no_other(world: World) -> None:
    mail, other = put(world, BATCH + 50, queue="mail"), put(world, 3)

    act = acts.start(world, "cancel", "queue:mail", actor="ada", reason="wrong list")
    done = work(world, act)

    assert (done.state, done.matched, done.changed, done.skipped) == ("done", BATCH + 50, BATCH + 50, 0)
    assert (states(world, mail), states(world, other)) == ({"cancelled"}, {"queued"})
    assert jobs.get(world, mail[0]).cancel_reason == "wrong list"
    assert entries(world, mail[7]) == [("cancel", "ada", "wrong list")]
    assert [(verb, actor) for verb, actor, _ in entries(world, act.id)] == [("start", "ada"), ("finish", "system/acts")]


def test_a_running_job_is_asked_to_stop(world: World) -> None:
    put(world, 2, queue="mail")
    [taken] = claims.pull(world, worker_id="w", queues=["mail"], limit=1)

    done = work(world, acts.start(world, "cancel", "queue:mail"))

    assert done.changed == 2
    assert jobs.get(world, taken.id).cancel_requested


def test_dead_jobs_are_revived_with_all_their_attempts(world: World) -> None:
    put(world, 5, queue="mail", unique=None)
    put(world, 1, queue="mail", unique="nightly")
    put(world, 1, queue="mail", concurrency_key="customer:7")
    dead = kill(world, queue="mail")
    waiting = put(world, 1, queue="mail")

    done = work(world, acts.start(world, "revive", "queue:mail error:Timeout"))

    assert (done.changed, done.skipped) == (7, 0)
    revived = [jobs.get(world, job.id) for job in dead]
    assert {(job.state, job.attempt, job.finished_at) for job in revived} == {("queued", 0, None)}
    assert len(claims.pull(world, worker_id="w", queues=["mail"], limit=50)) == 8
    assert entries(world, waiting[0]) == []


def test_a_revived_job_whose_unique_name_is_taken_is_skipped_with_its_reason(world: World) -> None:
    put(world, unique="nightly")
    [dead] = kill(world)
    put(world, unique="nightly")

    done = work(world, acts.start(world, "revive", "state:dead"))

    assert (done.state, done.changed, dict(done.skipped_for)) == ("done", 0, {"unique_name_taken": 1})
    assert dict(done.sample) == {dead.id: "unique_name_taken"}


def test_a_reschedule_moves_waiting_jobs_and_can_be_undone(world: World, clock: VirtualClock) -> None:
    early, late = put(world, 3, delay=HOUR), put(world, 2, delay=2 * HOUR)
    before = {each: jobs.get(world, each).run_at for each in early + late}

    act = work(world, acts.start(world, "reschedule", "queue:default", delay=timedelta(days=1)))
    moved = {each: jobs.get(world, each).run_at for each in before}
    jobs.reschedule(world, late[1], run_at=clock.now() + timedelta(days=3))
    undone = work(world, acts.undo(world, act.id, actor="ada"))

    assert set(moved.values()) == {clock.now() + timedelta(days=1)}
    assert (undone.state, undone.matched, undone.changed) == ("done", 5, 4)
    assert dict(undone.sample) == {late[1]: "changed"}
    back = {each: jobs.get(world, each).run_at for each in early + late[:1]}
    assert back == {each: before[each] for each in back}


def test_only_a_reschedule_that_rests_can_be_undone(world: World) -> None:
    put(world, 2)
    cancelling = acts.start(world, "cancel", "queue:default")
    moving = acts.start(world, "reschedule", "queue:default", delay=HOUR)

    with refused(NotAllowed, "act_not_undoable"):
        acts.undo(world, cancelling.id)
    with refused(NotAllowed, "act_still_running"):
        acts.undo(world, moving.id)


def test_filter_relative_times_and_highest_number_are_frozen(world: World, clock: VirtualClock) -> None:
    old = put(world)
    clock.advance(2 * HOUR)
    young = put(world)
    act = acts.start(world, "cancel", "created:<-1h")
    clock.advance(5 * HOUR)
    younger = put(world)

    done = work(world, act)

    assert (states(world, old), states(world, young + younger)) == ({"cancelled"}, {"queued"})
    assert done.highest < jobs.get(world, younger[0]).number
    assert "-1h" not in done.filter
    assert holds(read_frozen(done.filter), jobs.get(world, old[0]))


def test_a_dry_run_counts_and_names_the_first_and_changes_nothing(world: World) -> None:
    ids = put(world, 30, queue="mail")

    seen = acts.preview(world, "cancel", "queue:mail")

    assert (seen.matched, seen.more) == (30, False)
    assert [job.id for job in seen.first] == ids[:20]
    assert states(world, ids) == {"queued"}
    assert acts.find(world) == ([], None)


def test_a_dry_run_stops_counting_at_its_bound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "MOST_COUNTED", 10)
    put(world, 12, queue="mail")

    seen = acts.preview(world, "cancel", "queue:mail")

    assert (seen.matched, seen.more) == (10, True)
    assert MOST_COUNTED == 10_000


@pytest.mark.parametrize("where", ["", "   "])
def test_an_empty_filter_is_refused(world: World, where: str) -> None:
    with refused(InvalidFilter, "filter_empty"):
        acts.start(world, "cancel", where)
    with refused(InvalidFilter, "filter_empty"):
        acts.preview(world, "cancel", where)


def test_a_verb_that_could_change_nothing_is_refused(world: World) -> None:
    with refused(InvalidInput, "act_states_impossible"):
        acts.start(world, "revive", "state:queued queue:mail")
    with refused(InvalidInput, "act_time_missing"):
        acts.start(world, "reschedule", "queue:mail")
    with refused(InvalidInput, "act_time_unused"):
        acts.start(world, "cancel", "queue:mail", delay=HOUR)
    with refused(InvalidInput, "choice_unknown"):
        acts.start(world, "undo", "queue:mail")


def test_horaes_own_jobs_are_out_of_reach(world: World) -> None:
    act = acts.start(world, "cancel", "queue:horae")

    assert (act.matched, act.job is not None) == (0, True)
    with refused(ReservedQueue, "job_reserved"):
        jobs.cancel(world, f"job_{act.job}")
    assert work(world, act).changed == 0


def test_a_paused_act_rests_and_goes_on_where_it_stopped(world: World) -> None:
    ids = put(world, 2 * BATCH + 10, queue="mail")
    act = acts.start(world, "cancel", "queue:mail")
    serve_due(world, "w")
    paused = acts.pause(world, act.id, actor="ada", reason="too fast")

    resting = work(world, act)
    assert (paused.changed, resting.changed, resting.state) == (BATCH, BATCH, "paused")
    acts.resume(world, act.id, actor="ada")
    done = work(world, act)

    assert (done.state, done.changed) == ("done", len(ids))
    verbs = [verb for verb, _, _ in entries(world, act.id)]
    assert verbs == ["start", "pause", "resume", "finish"]


def test_a_cancelled_act_leaves_the_rest_alone(world: World) -> None:
    put(world, 2 * BATCH, queue="mail")
    act = acts.start(world, "cancel", "queue:mail")
    serve_due(world, "w")
    acts.cancel(world, act.id)

    ended = work(world, act)

    assert (ended.state, ended.changed) == ("cancelled", BATCH)
    assert len(jobs.find(world, Filter(("queued",), queue="mail"), limit=1000)) == BATCH
    with refused(NotAllowed, "already_ended"):
        acts.resume(world, act.id)


def test_an_act_that_is_resumed_before_its_old_job_noticed_is_worked_on_once(world: World) -> None:
    put(world, BATCH + 1, queue="mail")
    act = acts.start(world, "cancel", "queue:mail")
    acts.pause(world, act.id)
    acts.resume(world, act.id)

    done = work(world, act)

    assert (done.state, done.changed) == ("done", BATCH + 1)
    own = jobs.find(world, Filter(queue=MACHINERY), limit=100)
    assert {job.state for job in own} == {"succeeded"}


def test_jobs_that_changed_between_the_look_and_the_lock_are_skipped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, moved, running, kept = put(world, 4, queue="mail", delay=HOUR)
    act = acts.start(world, "reschedule", "queue:mail due:<+2h", delay=3 * HOUR)
    read = world.store.read

    def read_then_change(*given: Any, **options: Any) -> Any:
        """Change the jobs between the look for a batch, which is the first read, and the transaction after it."""
        found = read(*given, **options)
        monkeypatch.setattr(world.store, "read", read)
        jobs.cancel(world, ended)
        jobs.reschedule(world, moved, run_at=world.clock.now() + timedelta(days=9))
        jobs.reschedule(world, running, run_at=world.clock.now())
        claims.pull(world, worker_id="w", queues=["mail"], limit=1)
        return found

    monkeypatch.setattr(world.store, "read", read_then_change)
    done = work(world, act)

    assert (done.changed, dict(done.sample)) == (1, {ended: "ended", moved: "changed", running: "running"})
    assert jobs.get(world, kept).run_at == act.run_at


def test_a_tenants_act_reaches_only_its_own_jobs(world: World) -> None:
    hers = [made.id for made in jobs.enqueue_many(world, [Request("send", owner="alice")] * 2)]
    his = [made.id for made in jobs.enqueue_many(world, [Request("send", owner="bob")] * 2)]

    act = acts.start(world, "cancel", "handler:send", owner="alice")
    done = work(world, act)

    assert (done.changed, states(world, hers), states(world, his)) == (2, {"cancelled"}, {"queued"})
    with refused(NotFound, "act_unknown"):
        acts.get(world, act.id, owner="bob")
    assert acts.find(world, owner="bob") == ([], None)
    assert [each.id for each in acts.find(world, owner="alice")[0]] == [act.id]


def test_an_act_within_queues_is_seen_only_by_those_who_reach_them(world: World) -> None:
    mail, sms = put(world, queue="mail"), put(world, queue="sms")

    act = acts.start(world, "cancel", "handler:send", queues=["mail"])
    work(world, act)

    assert (states(world, mail), states(world, sms)) == ({"cancelled"}, {"queued"})
    assert acts.get(world, act.id, queues=["mail", "sms"]).id == act.id
    with refused(NotFound, "act_unknown"):
        acts.cancel(world, act.id, queues=["sms"])


def test_children_and_held_jobs_are_settled_as_by_hand(world: World) -> None:
    [parent] = put(world, queue="mail")
    child = jobs.enqueue(world, Request("send", queue="sms", after=(parent,))).id
    first, second = put(world, 2, queue="mail", concurrency_key="customer:7")

    work(world, acts.start(world, "cancel", f"id:{parent},{first}"))
    jobs.settle_children(world)

    assert jobs.get(world, child).state == "cancelled"
    assert [job.id for job in claims.pull(world, worker_id="w", queues=["mail"], limit=9)] == [second]


def test_an_act_whose_job_is_gone_gets_a_new_one(world: World) -> None:
    put(world, 3, queue="mail")
    act = acts.start(world, "cancel", "queue:mail")
    world.store.transact(
        lambda tx: tx.jobs.end_waiting(tx.jobs.lock(act.job or 0), reason="lost", now=world.clock.now())  # type: ignore[arg-type]
    )

    assert work(world, act).state == "running"
    assert acts.restart_lost(world) == 1
    assert work(world, act).state == "done"
    assert acts.restart_lost(world) == 0


def test_old_acts_are_forgotten_with_the_times_that_they_kept(world: World, clock: VirtualClock) -> None:
    put(world, 3, queue="mail")
    act = work(world, acts.start(world, "reschedule", "queue:mail", delay=HOUR))
    clock.advance(timedelta(days=40))
    running = acts.start(world, "cancel", "queue:sms")

    clean(world, Retention())

    assert [each.id for each in acts.find(world)[0]] == [running.id]
    assert world.store.read(lambda tx: tx.acts.kept(act.number, after=0, limit=10)) == {}


def test_every_attempt_of_a_policy_is_given_back(world: World, clock: VirtualClock) -> None:
    put(world, 1, retry=Retry.fixed(0, attempts=2))
    [job] = claims.pull(world, worker_id="w")
    endings.fail(world, job.id, job.token, "no")
    clock.advance(timedelta(seconds=1))
    [job] = claims.pull(world, worker_id="w")
    endings.fail(world, job.id, job.token, "no")

    work(world, acts.start(world, "revive", f"id:{job.id}"))
    revived = jobs.get(world, job.id)

    assert (revived.state, revived.attempt, revived.token > job.token) == ("queued", 0, True)
