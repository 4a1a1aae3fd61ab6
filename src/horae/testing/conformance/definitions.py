"""What every store must keep from the house's workers: tenants' jobs for handlers that are not open to tenants."""

from __future__ import annotations

from datetime import timedelta

import pytest

from horae.ports.definitions import StoredDefinition
from horae.ports.store import Store
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import at_once, declare, end, numbers, put, read_job, take


def hold_of(store: Store, number: int) -> tuple[str, str | None]:
    job = read_job(store, number)
    return job.held, job.held_for


class DefinitionConformance:
    """A house worker's claim takes a tenant's job only for a handler that is stored as open."""

    def test_a_definition_comes_back_as_it_was_written(self, store: Store) -> None:
        first = StoredDefinition("report", "mail", False, "shop", NOON, "system/start")
        second = StoredDefinition("report", "other", True, "shop", NOON + timedelta(minutes=1), "token/1")
        for definition in (first, second):
            store.transact(lambda tx, stored=definition: tx.definitions.put(stored))  # type: ignore[misc]  # a default binds the loop's value

        assert store.read(lambda tx: (tx.definitions.all(), tx.definitions.get("report"))) == ([second], second)
        assert store.read(lambda tx: tx.definitions.get("Report")) is None

    @pytest.mark.parametrize("stored", ["nothing", "closed"])
    def test_a_tenants_job_is_held_unless_its_handler_is_open(self, stored: str, store: Store) -> None:
        if stored == "closed":
            declare(store, tenants=False)
        [number] = put(store, a_new_job(owner="alice"))

        assert take(store) == []
        assert hold_of(store, number) == ("closed", "greet")
        assert store.peek(["default"]).next_due_at is None, "it has left the claim index"

    def test_a_tenants_job_for_an_open_handler_is_claimed_like_any_other(self, store: Store) -> None:
        declare(store)
        made = put(store, a_new_job(owner="alice"), a_new_job(), a_new_job(owner="bob"))

        assert numbers(take(store)) == made

    def test_our_own_handlers_are_open_unless_they_are_stored_as_closed(self, store: Store) -> None:
        made = put(store, *[a_new_job(owner="alice", handler=name) for name in ("dispatch", "webhook", "attend")])
        declare(store, "webhook", tenants=False)

        assert numbers(take(store)) == [made[0], made[2]]
        declare(store, "webhook")
        assert numbers(take(store)) == [made[1]]

    def test_a_system_job_needs_no_open_handler(self, store: Store) -> None:
        declare(store, tenants=False)
        made = put(store, a_new_job(), a_new_job(handler="unknown"))

        assert numbers(take(store)) == made

    def test_closed_jobs_keep_nobody_behind_them_waiting(self, store: Store) -> None:
        """One claim passes them all, also where several bands and a concurrency key are concerned."""
        closed = put(store, *[a_new_job(owner="alice", priority="high") for _ in range(300)])
        behind = put(store, a_new_job(), a_new_job(concurrency_key="k"), a_new_job(priority="low"))

        assert numbers(take(store, 3)) == behind
        assert {hold_of(store, number)[0] for number in closed} == {"closed"}

    def test_a_closed_job_with_a_concurrency_key_takes_no_slot(self, store: Store) -> None:
        put(store, a_new_job(owner="alice", concurrency_key="k"))
        [number] = put(store, a_new_job(concurrency_key="k"))

        assert numbers(take(store)) == [number]

    def test_opening_a_handler_releases_what_was_held_for_it(self, store: Store) -> None:
        mine, other = put(store, a_new_job(owner="alice"), a_new_job(owner="alice", handler="wipe"))
        assert take(store) == []

        declare(store)

        assert numbers(take(store)) == [mine]
        assert hold_of(store, other) == ("closed", "wipe")

    def test_a_release_that_never_came_is_made_up_for(self, store: Store) -> None:
        """Make up for a process that died between opening the handler and the release."""
        [number] = put(store, a_new_job(owner="alice"))
        assert take(store) == []
        store.transact(lambda tx: tx.definitions.put(StoredDefinition("greet", "default", True, "", NOON, "")))
        assert take(store) == []

        assert store.let_in_forgotten() == {"default"}
        assert numbers(take(store)) == [number]

    def test_a_handler_that_is_closed_again_holds_the_next(self, store: Store) -> None:
        declare(store)
        [first] = put(store, a_new_job(owner="alice"))
        assert numbers(take(store)) == [first]
        declare(store, tenants=False)
        [second] = put(store, a_new_job(owner="alice"))

        assert take(store) == []
        assert hold_of(store, second) == ("closed", "greet")

    def test_a_retry_passes_the_same_check(self, store: Store) -> None:
        declare(store)
        [number] = put(store, a_new_job(owner="alice"))
        [job] = take(store)
        declare(store, tenants=False)
        assert end(store, job, "failed", error="no")

        assert take(store, now=NOON + timedelta(hours=1)) == []
        assert hold_of(store, number) == ("closed", "greet")

    def test_a_tenants_own_worker_takes_what_the_house_may_not(self, store: Store) -> None:
        """In order, among jobs that no claim has held yet; a job that it takes is no longer held."""
        made = put(store, a_new_job(owner="alice", handler="a"), a_new_job(owner="bob"), a_new_job())
        take(store)
        made += put(store, a_new_job(owner="alice", handler="b", run_at=NOON - timedelta(minutes=1)))
        made += put(store, a_new_job(owner="alice", handler="c", priority="high"))

        claimed = take(store, owner="alice")

        assert numbers(claimed) == [made[4], made[3], made[0]]
        assert {(job.held, job.held_for) for job in claimed} == {("", None)}
        assert hold_of(store, made[0]) == ("", None)
        assert hold_of(store, made[1]) == ("closed", "greet")
        assert numbers(take(store, owner="bob")) == [made[1]]

    def test_a_closed_job_that_is_moved_is_decided_on_again(self, store: Store) -> None:
        [number] = put(store, a_new_job(owner="alice"))
        take(store)
        later = NOON + timedelta(hours=1)
        job = read_job(store, number)
        store.transact(lambda tx: tx.jobs.requeue(job, run_at=later, attempt=0, band=None, now=NOON))

        assert store.peek(["default"]).next_due_at == later, "so that its tenant's worker wakes for it"
        assert take(store, now=later) == []
        assert hold_of(store, number) == ("closed", "greet")

    @pytest.mark.parametrize("attempt", range(3))
    def test_nothing_stays_held_for_a_handler_that_is_opened_while_others_claim(
        self, attempt: int, store: Store
    ) -> None:
        made = put(store, *[a_new_job(owner="alice") for _ in range(60)])
        claimed: list[int] = []

        def work(index: int) -> None:
            if index == 0:
                declare(store)
            else:
                claimed.extend(numbers(take(store, 20, worker=f"w{index}")))

        at_once(4, work)

        while more := numbers(take(store)):
            claimed += more
        assert sorted(claimed) == made

    def test_nothing_is_claimed_for_a_handler_that_was_closed_before(self, store: Store) -> None:
        """However many claim at once: what was stored before a claim began decides it."""
        declare(store)
        declare(store, tenants=False)
        put(store, *[a_new_job(owner="alice") for _ in range(60)])

        assert at_once(4, lambda index: take(store, 20, worker=f"w{index}")) == [[]] * 4
