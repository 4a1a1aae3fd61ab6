"""What every store must offer to people: get, find, count, measure, and the manual acts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from horae.core.audit.entries import Entry
from horae.core.jobs.job import Filter, Job
from horae.ports.queues import Queue
from horae.ports.store import Store
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import at_once, attempts, configure, end, numbers, put, read_job, take

SECOND = timedelta(seconds=1)
LATER = NOON + 2 * LEASE


def find(store: Store, limit: int = 100, before: int | None = None, **wanted: Any) -> list[int]:
    return numbers(store.read(lambda tx: tx.jobs.find(Filter(**wanted), limit=limit, before=before)))


def one_of_each_state(store: Store) -> dict[str, int]:
    """Five jobs, by state; numbered in the order of this dictionary."""
    names = ("queued", "succeeded", "dead", "cancelled", "running")
    given = dict(zip(names, put(store, *(a_new_job(max_attempts=1) for _ in names)), strict=True))
    taken = {job.number: job for job in take(store)}
    end(store, taken[given["queued"]], "released")
    end(store, taken[given["succeeded"]])
    end(store, taken[given["dead"]], "failed")
    end(store, taken[given["cancelled"]], "cancelled")
    return given


class ControlConformance:
    """Live and finished jobs as one list; manual acts guarded by what was read."""

    def test_a_job_that_never_was_is_none(self, store: Store) -> None:
        assert store.transact(lambda tx: (tx.jobs.get(10**9), tx.jobs.lock(10**9))) == (None, None)

    def test_jobs_are_found_newest_first_live_and_finished_together(self, store: Store) -> None:
        given = one_of_each_state(store)

        assert find(store) == sorted(given.values(), reverse=True)

    @pytest.mark.parametrize("state", ["queued", "running", "succeeded", "dead", "cancelled"])
    def test_jobs_are_found_by_state(self, store: Store, state: str) -> None:
        given = one_of_each_state(store)

        assert find(store, states=(state,)) == [given[state]]

    def test_jobs_are_found_by_several_states(self, store: Store) -> None:
        given = one_of_each_state(store)

        assert find(store, states=("dead", "succeeded")) == [given["dead"], given["succeeded"]]

    @pytest.mark.parametrize(
        ("field", "value", "other"),
        [
            ("queue", "mail", "Mail"),
            ("handler", "send", "Send"),
            ("owner", "ann", "Ann"),
            ("key", "k", "K"),
            ("object_type", "memory", "cognition"),
            ("object_id", "o", "O"),
        ],
    )
    @pytest.mark.parametrize("ended", [False, True], ids=["waiting", "finished"])
    def test_jobs_are_found_by_each_field(self, store: Store, field: str, value: str, other: str, ended: bool) -> None:
        mine: dict[str, Any] = {field: value}
        theirs: dict[str, Any] = {field: other}
        number, stranger = put(store, a_new_job(None, **mine), a_new_job(None, **theirs))
        if ended:
            for queue in {"default", value, other}:
                for job in take(store, queue=queue):
                    end(store, job)

        assert find(store, **mine) == [number]
        assert find(store, **theirs) == [stranger]

    @pytest.mark.parametrize(
        "tag", ["plain", "UPPER", "with space", 'quote"s', "100%", "under_score", "汉字🦉", "back\\s"]
    )
    def test_jobs_are_found_by_exactly_their_tag(self, store: Store, tag: str) -> None:
        number, *_ = put(
            store,
            a_new_job(tags=("first", tag)),
            a_new_job(tags=(tag.swapcase() + "x", tag + "x", "x" + tag, "100x", "underxscore")),
            a_new_job(),
        )

        assert find(store, tag=tag) == [number]

    def test_tags_tell_upper_from_lower_case_apart(self, store: Store) -> None:
        put(store, a_new_job(tags=("Vip",)))

        assert find(store, tag="vip") == []

    def test_jobs_are_found_by_when_they_were_enqueued(self, store: Store) -> None:
        [early] = put(store, a_new_job(), now=NOON)
        [late] = put(store, a_new_job(), now=NOON + SECOND)
        end(store, take(store, 1)[0])

        verdicts = find(store, created_after=NOON + SECOND), find(store, created_before=NOON + SECOND)

        assert verdicts == ([late], [early])

    def test_pages_follow_each_other_without_gap_or_repetition(self, store: Store) -> None:
        given = put(store, *(a_new_job() for _ in range(25)))
        for job in take(store, 25)[::2]:
            end(store, job)
        pages: list[int] = []

        while page := find(store, limit=4, before=pages[-1] if pages else None):
            pages += page

        assert pages == given[::-1]

    def test_counts_tell_how_many_jobs_stand_where(self, store: Store) -> None:
        one_of_each_state(store)
        put(store, a_new_job(queue="mail", owner="ann"), a_new_job(queue="mail"))

        def counts(queue: str | None = None, owner: str | None = None) -> dict[tuple[str, str], int]:
            return store.read(lambda tx: tx.jobs.counts(queue, owner, now=NOON))

        each = {("default", state): 1 for state in ("queued", "running", "succeeded", "dead", "cancelled")}
        assert counts() == {**each, ("mail", "queued"): 2}
        assert counts(queue="mail") == {("mail", "queued"): 2}
        assert counts(owner="ann") == {("mail", "queued"): 1}

    def test_metrics_give_the_raw_figures(self, store: Store) -> None:
        """S0-29 to S0-33."""
        one_of_each_state(store)
        put(store, a_new_job(run_at=NOON - 9 * SECOND), a_new_job(run_at=LATER), now=NOON)

        raw = store.read(lambda tx: tx.jobs.metrics(now=NOON, since=NOON - SECOND, owner=None))

        assert raw["due"] == 2
        assert raw["oldest_due"] == int((NOON - 9 * SECOND).timestamp()) * 1_000_000
        assert (raw["dead"], raw["dead_recently"], raw["succeeded"], raw["finished"]) == (1, 1, 1, 2)
        assert (raw["live"], raw["live_after_retry"], raw["finished_after_retry"]) == (5, 1, 0)

    def test_metrics_look_back_only_so_far(self, store: Store) -> None:
        one_of_each_state(store)

        raw = store.read(lambda tx: tx.jobs.metrics(now=LATER, since=LATER - SECOND, owner=None))

        assert (raw["dead"], raw["dead_recently"], raw["succeeded"], raw["finished"]) == (1, 0, 0, 0)

    def test_metrics_of_one_owner_leave_the_others_out(self, store: Store) -> None:
        put(store, a_new_job(owner="ann"), a_new_job())

        assert store.read(lambda tx: tx.jobs.metrics(now=NOON, since=NOON, owner="ann"))["due"] == 1

    # -- manual acts -------------------------------------------------------------------------------------------------

    def test_a_waiting_job_is_cancelled_at_once_and_kept_as_history(self, store: Store) -> None:
        [number] = put(store, a_new_job({"a": 1}, tags=("t",), key="k", unique="u"))
        job = read_job(store, number)

        assert store.transact(lambda tx: tx.jobs.end_waiting(job, reason="enough", now=NOON + SECOND))

        gone = read_job(store, number)
        assert (gone.state, gone.cancel_reason, gone.finished_at) == ("cancelled", "enough", NOON + SECOND)
        assert (gone.payload, gone.tags, gone.key) == ({"a": 1}, ("t",), "k")
        assert [run.outcome for run in attempts(store, number)] == ["cancelled"]

    def test_a_cancelled_job_frees_its_unique_name(self, store: Store) -> None:
        [number] = put(store, a_new_job(unique="u"))
        job = read_job(store, number)
        store.transact(lambda tx: tx.jobs.end_waiting(job, reason=None, now=NOON))

        assert put(store, a_new_job(unique="u")) != [number]

    def test_a_manual_act_on_what_has_changed_meanwhile_changes_nothing(self, store: Store) -> None:
        [number] = put(store, a_new_job())
        seen = read_job(store, number)
        [running] = take(store)

        def act(tx: Any) -> list[bool]:
            return [
                tx.jobs.requeue(seen, run_at=LATER, attempt=0, band=None, now=NOON),
                tx.jobs.ask_to_cancel(seen, reason=""),
                tx.jobs.end_waiting(seen, reason=None, now=NOON),
            ]

        assert store.transact(act) == [False, False, False]
        assert read_job(store, number) == running
        assert len(attempts(store, number)) == 1

    def test_a_running_job_is_asked_to_stop(self, store: Store) -> None:
        put(store, a_new_job())
        [job] = take(store)

        assert store.transact(lambda tx: tx.jobs.ask_to_cancel(job, reason="enough"))

        assert (read_job(store, job.number).state, read_job(store, job.number).cancel_reason) == ("running", "enough")

    def test_a_waiting_job_is_moved_to_another_time_and_band(self, store: Store) -> None:
        [number] = put(store, a_new_job(key="k"))
        job = read_job(store, number)

        assert store.transact(lambda tx: tx.jobs.requeue(job, run_at=LATER, attempt=0, band=0, now=NOON))

        moved = read_job(store, number)
        assert (moved.run_at, moved.planned_at, moved.priority, moved.key, moved.state) == (
            LATER, NOON, "high", "k", "queued",
        )  # fmt: skip

    def test_a_dead_job_is_revived_with_a_new_token(self, store: Store) -> None:
        dead = self.a_dead_job(store)

        assert store.transact(lambda tx: tx.jobs.requeue(dead, run_at=LATER, attempt=0, band=None, now=LATER))

        [again] = take(store, now=LATER)
        assert (again.number, again.attempt, again.token > dead.token) == (dead.number, 0, True)

    def test_a_dead_job_whose_unique_name_was_taken_cannot_be_revived(self, store: Store) -> None:
        dead = self.a_dead_job(store, unique="u")
        put(store, a_new_job(unique="u"))

        assert not store.transact(lambda tx: tx.jobs.requeue(dead, run_at=LATER, attempt=0, band=None, now=LATER))
        assert read_job(store, dead.number).state == "dead"

    def test_a_revived_job_has_its_unique_name_again(self, store: Store) -> None:
        dead = self.a_dead_job(store, unique="u")
        store.transact(lambda tx: tx.jobs.requeue(dead, run_at=LATER, attempt=0, band=None, now=LATER))

        assert put(store, a_new_job(unique="u")) == [dead.number]

    def a_dead_job(self, store: Store, **fields: Any) -> Job:
        put(store, a_new_job(max_attempts=1, **fields))
        [job] = take(store)
        end(store, job, "failed")
        return read_job(store, job.number)

    # -- queues and audit --------------------------------------------------------------------------------------------

    def test_settings_of_a_queue_are_kept(self, store: Store) -> None:
        queue = Queue("mail", "run_at", 3, NOON, "ann", "too many 🦉")

        store.transact(lambda tx: tx.queues.put(queue))
        store.transact(lambda tx: tx.limits.apply("queue:mail", 3))
        store.transact(lambda tx: tx.queues.put(Queue("Mail")))

        assert store.read(lambda tx: (tx.queues.get("mail"), tx.queues.get("none"))) == (queue, None)
        assert sorted(found.name for found in store.read(lambda tx: tx.queues.all())) == ["Mail", "mail"]

    def test_two_people_who_set_up_a_new_queue_at_once_both_succeed(self, store: Store) -> None:
        at_once(5, lambda index: configure(store, max_running=index + 1))

        assert len(store.read(lambda tx: tx.queues.all())) == 1

    def test_entries_are_kept_and_read_newest_first(self, store: Store) -> None:
        entries = [
            Entry(NOON, "ann", f"verb{index}", "job", f"job_{index % 2}", "ann", "why 🦉", {"a": 1}, {"b": [2]}, ("e",))
            for index in range(5)
        ]

        def append(entry: Entry) -> None:
            store.transact(lambda tx: tx.audit.append(entry))

        for entry in entries:
            append(entry)

        def read(before: int | None = None, object_id: str | None = None) -> list[tuple[int, Entry]]:
            return store.read(lambda tx: tx.audit.find(object_id=object_id, limit=2, before=before))

        page = read()
        rest = read(before=page[-1][0])
        assert [entry for _, entry in page + rest] == entries[:0:-1]
        assert [entry.verb for _, entry in read(object_id="job_1")] == ["verb3", "verb1"]
