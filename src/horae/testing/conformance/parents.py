"""What every store must do with jobs that wait for one that will never succeed: cancel, run, or let them wait.

A parent that was cancelled counts like one that is dead. Only a dead one can be revived.
"""

from __future__ import annotations

from typing import Any

import pytest

from horae.actions.jobs import endings
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.reasons import why
from horae.core.jobs.job import Filter, Job, Lease
from horae.core.jobs.retry import Retry
from horae.errors import NotAllowed
from horae.ports.world import World
from horae.testing.builders import LEASE, a_request
from horae.testing.clock import NOON, VirtualClock
from horae.testing.conformance.support import at_once, end, take
from horae.testing.conformance.world import InVirtualTime, run

ONCE = Retry.none()


def enqueue(world: World, *after: Job, policy: Any = "cancel", **fields: Any) -> Job:
    parents = tuple(job.id for job in after)
    request = a_request(after=parents, retry=ONCE, on_parent_dead=policy, **fields)
    return verbs.enqueue(world, request).job


def state(world: World, job: Job) -> str:
    return verbs.get(world, job.id).state


def states(world: World, *jobs: Job) -> list[str]:
    return [state(world, job) for job in jobs]


def reasons(world: World, job: Job) -> list[tuple[str, str]]:
    """Return why a job does not run, except that no worker serves its queue, as for every job here."""
    found = why(world, verbs.get(world, job.id))
    return [(reason.code, reason.text) for reason in found if reason.code != "no_worker"]


def lose_parent(world: World, parent: Job, how: str) -> None:
    """End a waiting parent without success."""
    if how == "cancelled":
        verbs.cancel(world, parent.id)
        return
    [held] = [job for job in take(world.store, now=world.clock.now()) if job.id == parent.id]
    assert end(world.store, held, "failed", now=world.clock.now(), error="Boom", final=True)


class ParentConformance(InVirtualTime):
    """Jobs that wait for others (S3-49), when one of those never succeeds."""

    # -- the policies --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("how", "verdicts"), [("dead", "is dead"), ("cancelled", "was cancelled")])
    def test_a_child_is_cancelled_with_its_parent(self, world: World, how: str, verdicts: str) -> None:
        parent = enqueue(world)
        child = enqueue(world, parent)

        lose_parent(world, parent, how)

        ended = verbs.get(world, child.id)
        assert (ended.state, ended.cancel_reason) == ("cancelled", f"{parent.id}, which it waited for, {verdicts}")
        assert [attempt.outcome for attempt in verbs.runs(world, child.id)] == ["cancelled"]
        assert take(world.store) == []

    @pytest.mark.parametrize("how", ["dead", "cancelled"])
    def test_a_child_runs_without_its_parent_where_its_policy_says_so(self, world: World, how: str) -> None:
        parent, other = enqueue(world, queue="a"), enqueue(world, queue="a")
        child = enqueue(world, parent, other, policy="run", queue="b")
        [held, beside] = take(world.store, queue="a")
        if how == "dead":
            assert end(world.store, held, "failed", final=True)
        else:
            verbs.cancel(world, parent.id)
            assert end(world.store, held, "cancelled")

        assert take(world.store, queue="b") == []  # the other one may still succeed
        assert end(world.store, beside)
        assert [job.id for job in take(world.store, queue="b")] == [child.id]

    def test_a_child_waits_for_a_dead_parent_where_its_policy_says_so(self, world: World) -> None:
        parent = enqueue(world)
        child = enqueue(world, parent, policy="wait")
        lose_parent(world, parent, "dead")

        assert take(world.store) == []
        assert reasons(world, child) == [
            (
                "parent_dead",
                f"it waits for {parent.id}, which is dead, and waits on (on_parent_dead=wait); revive {parent.id}, "
                "or cancel this job",
            )
        ]
        verbs.revive(world, parent.id)
        assert reasons(world, child) == [("held", f"it waits for {parent.id} (queued) to succeed")]
        run(world)
        assert [job.id for job in take(world.store)] == [child.id]

    def test_a_child_that_waits_for_a_cancelled_parent_says_that_it_waits_for_ever(self, world: World) -> None:
        parent = enqueue(world)
        child = enqueue(world, parent, policy="wait")
        grandchild = enqueue(world, child)
        lose_parent(world, parent, "cancelled")

        assert [code for code, _ in reasons(world, child)] == ["parent_dead"]
        assert "cannot be revived" in reasons(world, child)[0][1]
        assert reasons(world, grandchild) == [
            ("parent_dead", f"it waits for {child.id}, which waits for {parent.id}, which is lost")
        ]
        stuck = world.store.read(lambda tx: tx.jobs.waits_for_ever(["default"], limit=10))
        assert stuck == [(child.number, parent.number), (grandchild.number, parent.number)]

    def test_a_job_that_waits_for_several_says_for_whom(self, world: World) -> None:
        parents = [enqueue(world), enqueue(world, queue="other")]
        child = enqueue(world, *parents, concurrency_key="k")
        take(world.store)

        verdicts = f"it waits for {parents[0].id} (running), {parents[1].id} (queued) to succeed"
        assert reasons(world, child) == [("held", verdicts)]

    # -- chains --------------------------------------------------------------------------------------------------

    def test_a_long_chain_is_cancelled_and_revived_in_bounded_steps(self, world: World) -> None:
        """No recursion, and no transaction that deals with all of them."""
        chain = [enqueue(world)]
        for _ in range(350):
            chain.append(enqueue(world, chain[-1]))
        lose_parent(world, chain[0], "dead")
        at_first = verbs.counts(world)["default"]["cancelled"]

        verbs.settle_children(world, limit=100)
        assert (0 < at_first < 350, verbs.counts(world)["default"]["cancelled"]) == (True, 350)

        verbs.revive(world, chain[0].id)
        verbs.settle_children(world, limit=100)
        assert verbs.counts(world)["default"]["queued"] == 351
        assert [run(world).id for _ in range(3)] == [job.id for job in chain[:3]]

    def test_a_large_family_is_cancelled_in_bounded_steps(self, world: World) -> None:
        parent = enqueue(world)
        requests = [a_request(after=(parent.id,), retry=ONCE) for _ in range(350)]
        verbs.enqueue_many(world, requests)
        lose_parent(world, parent, "dead")

        assert verbs.counts(world)["default"]["cancelled"] < 350
        assert verbs.settle_children(world, limit=100) > 0
        assert verbs.counts(world)["default"]["cancelled"] == 350
        assert verbs.settle_children(world) == 0

    def test_grandchildren_are_cancelled_by_their_own_policies(self, world: World) -> None:
        parent = enqueue(world)
        child = enqueue(world, parent)
        runs_on = enqueue(world, child, policy="run")
        waits_on = enqueue(world, child, policy="wait")
        beyond = enqueue(world, enqueue(world, child))

        lose_parent(world, parent, "dead")

        assert states(world, child, runs_on, waits_on, beyond) == ["cancelled", "queued", "queued", "cancelled"]
        assert [job.id for job in take(world.store)] == [runs_on.id]

    # -- reviving ------------------------------------------------------------------------------------------------

    def test_reviving_a_parent_revives_what_was_cancelled_for_it(self, world: World, clock: VirtualClock) -> None:
        parent = enqueue(world)
        fields: dict[str, Any] = {
            "payload": {"n": 1}, "tags": ("t",), "key": "k", "unique": "u", "concurrency_key": "c",
            "concurrency_limit": 3, "priority": "high", "owner": "alice", "trace_id": "x" * 32,
            "handler": "dispatch",  # which is open to tenants
        }  # fmt: skip
        child = enqueue(world, parent, **fields)
        grandchild = enqueue(world, child)
        before = verbs.get(world, child.id)
        lose_parent(world, parent, "dead")
        assert states(world, child, grandchild) == ["cancelled", "cancelled"]

        verbs.revive(world, parent.id)

        after = verbs.get(world, child.id)
        same = ("payload", "tags", "key", "unique", "concurrency_key", "priority", "owner", "trace_id", "run_at",
                "planned_at", "created_at", "queue", "handler", "held", "held_for", "max_attempts")  # fmt: skip
        assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
        assert after.token > before.token
        assert after.cancel_reason is None
        assert [run(world).id for _ in range(3)] == [parent.id, child.id, grandchild.id]
        assert [attempt.outcome for attempt in verbs.runs(world, child.id)] == ["cancelled", "succeeded"]

    def test_a_revived_child_keeps_its_concurrency_limit(self, world: World) -> None:
        parent = enqueue(world)
        for _ in range(3):
            enqueue(world, parent, concurrency_key="c", concurrency_limit=2)
        lose_parent(world, parent, "dead")
        verbs.revive(world, parent.id)
        run(world)

        assert len(take(world.store)) == 2

    def test_what_was_cancelled_by_hand_stays_cancelled(self, world: World) -> None:
        parent = enqueue(world)
        child = enqueue(world, parent)
        lose_parent(world, parent, "dead")
        verbs.revive(world, parent.id)
        verbs.cancel(world, child.id, actor="ann")
        lose_parent(world, parent, "dead")
        verbs.revive(world, parent.id)

        assert state(world, child) == "cancelled"
        with pytest.raises(NotAllowed):
            verbs.revive(world, child.id)

    def test_a_child_whose_unique_name_is_taken_stays_cancelled(self, world: World) -> None:
        parent = enqueue(world)
        child = enqueue(world, parent, unique="u")
        lose_parent(world, parent, "dead")
        rival = enqueue(world, unique="u", queue="other")

        verbs.revive(world, parent.id)

        assert states(world, child, rival, parent) == ["cancelled", "queued", "queued"]
        assert verbs.settle_children(world) == 0

    def test_a_child_of_two_dead_parents_comes_back_with_the_last_of_them(self, world: World) -> None:
        parents = [enqueue(world), enqueue(world)]
        child = enqueue(world, *parents)
        for held in take(world.store):
            assert end(world.store, held, "failed", final=True)

        verbs.revive(world, parents[0].id)
        assert state(world, child) == "cancelled"
        verbs.revive(world, parents[1].id)
        assert state(world, child) == "queued"
        run(world)
        assert take(world.store, now=NOON) != []  # the other parent; the child still waits for it
        assert verbs.get(world, child.id).held == "needs"

    def test_parents_that_are_revived_at_the_same_moment_bring_their_child_back(self, world: World) -> None:
        """Neither may take the other for lost."""
        families = [[enqueue(world) for _ in range(2)] for _ in range(6)]
        children = [enqueue(world, *parents) for parents in families]
        for held in take(world.store):
            assert end(world.store, held, "failed", final=True)

        def revive(index: int) -> None:
            for parents in families:
                verbs.revive(world, parents[index].id)

        at_once(2, revive)

        assert states(world, *children) == ["queued"] * len(children)

    # -- races ---------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("how", ["dead", "cancelled"])
    @pytest.mark.parametrize(
        ("policy", "expected"), [("cancel", "cancelled"), ("run", "queued"), ("wait", "queued")], ids=str
    )
    def test_a_child_that_comes_after_its_parent_has_ended_is_dealt_with_at_once(
        self, world: World, how: str, policy: Any, expected: str
    ) -> None:
        parent = enqueue(world)
        lose_parent(world, parent, how)

        child = enqueue(world, parent, policy=policy)

        assert (child.state, state(world, child)) == (expected, expected)
        assert len(take(world.store)) == (policy == "run")

    def test_a_child_that_came_after_the_death_of_its_parent_is_revived_with_it(self, world: World) -> None:
        parent = enqueue(world)
        lose_parent(world, parent, "dead")
        child = enqueue(world, parent)

        verbs.revive(world, parent.id)

        assert state(world, child) == "queued"

    def test_a_child_enqueued_while_its_parent_dies_is_never_left_waiting(self, world: World) -> None:
        for _ in range(15):
            enqueue(world, queue="parents")
        held = take(world.store, queue="parents")

        def act(index: int) -> None:
            for job in held:
                if index:
                    enqueue(world, job)
                else:
                    end(world.store, job, "failed", final=True)

        at_once(2, act)

        assert verbs.counts(world, queue="default")["default"]["cancelled"] == len(held)

    def test_a_parent_revived_while_its_children_are_cancelled_leaves_none_behind(self, world: World) -> None:
        """Whichever comes first: in the end the parent waits, and so do its children."""
        parent = enqueue(world)
        requests = [a_request(after=(parent.id,), retry=ONCE) for _ in range(150)]
        children = [each.job for each in verbs.enqueue_many(world, requests)]
        lose_parent(world, parent, "dead")

        at_once(2, lambda index: verbs.settle_children(world) if index else verbs.revive(world, parent.id))
        verbs.settle_children(world)

        assert set(states(world, *children)) == {"queued"}
        run(world)
        assert len(take(world.store, 1000)) == len(children)

    def test_a_parent_that_succeeds_before_all_its_children_are_back_lets_all_of_them_run(self, world: World) -> None:
        """Only some were brought back with it; the others must not be forgotten when it has done its part."""
        parent = enqueue(world)
        requests = [a_request(after=(parent.id,), retry=ONCE) for _ in range(250)]
        children = [each.job for each in verbs.enqueue_many(world, requests)]
        lose_parent(world, parent, "dead")
        verbs.settle_children(world)
        verbs.revive(world, parent.id)

        run(world)
        at_once = take(world.store, 1000)
        verbs.settle_children(world)

        assert 0 < len(at_once) < len(children)
        assert len(at_once) + len(take(world.store, 1000)) == len(children)

    def test_a_parent_that_dies_again_cancels_its_children_again(self, world: World) -> None:
        parent = enqueue(world)
        child = enqueue(world, parent)
        for _ in range(3):
            lose_parent(world, parent, "dead")
            assert state(world, child) == "cancelled"
            verbs.revive(world, parent.id)
            assert state(world, child) == "queued"

        assert [attempt.outcome for attempt in verbs.runs(world, child.id)] == ["cancelled"] * 3

    def test_a_running_parent_that_is_cancelled_takes_its_child_along(self, world: World) -> None:
        parent = enqueue(world)
        child = enqueue(world, parent)
        [held] = take(world.store)
        verbs.cancel(world, parent.id)
        assert world.store.renew([Lease(held.number, held.token)], until=NOON + LEASE).cancelled == {held.number}

        assert end(world.store, held, "cancelled")

        assert state(world, child) == "cancelled"

    def test_a_parent_whose_worker_died_too_often_takes_its_child_along(
        self, world: World, clock: VirtualClock
    ) -> None:
        child = enqueue(world, enqueue(world))
        for _ in range(3):
            assert state(world, child) == "queued"
            assert len(take(world.store, now=clock.now())) == 1
            clock.advance(2 * LEASE)
            endings.lose_expired(world)

        assert state(world, child) == "cancelled"

    # -- the end of work -----------------------------------------------------------------------------------------

    def test_a_queue_is_empty_when_all_that_is_left_waits_for_ever(self, world: World) -> None:
        parent = enqueue(world)
        enqueue(world, enqueue(world, parent, policy="wait"), policy="wait")
        moves = [world.store.read(lambda tx: tx.jobs.may_move(["default"]))]
        lose_parent(world, parent, "dead")
        moves.append(world.store.read(lambda tx: tx.jobs.may_move(["default"])))
        verbs.revive(world, parent.id)
        moves.append(world.store.read(lambda tx: tx.jobs.may_move(["default"])))

        assert moves == [True, False, True]
        assert len(verbs.find(world, Filter(states=("queued",)))) == 3
