"""What a claim returns of jobs with and without rare fields, in one batch and one after the other, in their order."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from horae.core.jobs.job import PRIORITIES
from horae.ports.claims import Claim
from horae.stores.databases.postgres import PostgresStore
from horae.stores.databases.postgres_claims import Claims, read_again
from horae.stores.store import SqlStore
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import lose, put, read_job, take

MINUTE = timedelta(minutes=1)
PLAIN: dict[str, Any] = {"concurrency_limit": 1}
RARE: tuple[dict[str, Any], ...] = (
    {"trace_id": "t1"},
    {"timeout": MINUTE},
    {"tags": ("a",)},
    {"group": "night"},
    {"retry": '{"kind":"fixed","first":1.0}'},
    {"object_type": "memory", "object_id": "m1", "action": "verify"},
)
ON_POSTGRES = pytest.mark.parametrize("store_url", [pytest.param("postgres", marks=pytest.mark.server)], indirect=True)


@pytest.mark.parametrize("kinds", ["pp", "pr", "rp", "rr", "ppr", "rpp", "prrp"])
def test_a_claim_returns_jobs_as_they_are_stored(store: SqlStore, kinds: str) -> None:
    """Each letter is a batch: what one batch was like may not change what the next one is read as."""
    for number, kind in enumerate(kinds):
        fields = RARE if kind == "r" else (PLAIN,) * len(RARE)
        mixed = [a_new_job({"n": place}, **each) for place, each in enumerate(fields)]
        numbers = put(store, a_new_job({"n": "first"}), *mixed, a_new_job({"n": "last"}))
        claimed = take(store, 100)
        assert [job.number for job in claimed] == numbers, number
        assert claimed == [read_job(store, each) for each in numbers]


@pytest.mark.parametrize("size", [3, 100])
def test_a_claim_returns_bands_in_order_and_within_them_what_was_due_first(store: SqlStore, size: int) -> None:
    wanted = [(0, 3), (0, 5), (1, 1), (1, 2), (1, 9), (2, 0), (2, 4)]
    due = {minutes: NOON - timedelta(hours=1) + minutes * MINUTE for _, minutes in wanted}
    shuffled = sorted(wanted, key=lambda each: each[1] * 5 % 7)
    put(
        store,
        *(a_new_job({"band": band, "at": at}, priority=PRIORITIES[band], run_at=due[at]) for band, at in shuffled),
    )
    found = [job.payload for _ in range(0, len(wanted), size) for job in take(store, size)]
    assert [(each["band"], each["at"]) for each in found] == wanted


def claimed_with(
    store: PostgresStore,
    claims: Claims,
    meanwhile: Callable[[], object] = lambda: None,
    queue: str = "default",
) -> tuple[list[int], int]:
    """The numbers of claimed jobs, and how many of them were read again; *meanwhile* happens before that."""
    claim, again = Claim(queue, 10, "w1", LEASE), list[int]()

    def read(numbers: list[int]) -> list[Any]:
        meanwhile()
        again.extend(numbers)
        with store.direct() as connection:
            return read_again(connection, numbers)

    with store.direct() as connection:
        rows, _ = claims.take(connection, claim, NOON, ())
    return [job.number for job in claims.make_jobs(rows, claim, NOON, read)], len(again)


@ON_POSTGRES
def test_a_rare_job_is_read_again_once_and_the_next_claim_knows(store: PostgresStore) -> None:
    claims = Claims()
    for tags, again in (((), 0), (("a",), 1), (("a",), 0), ((), 0), ((), 0), (("a",), 1)):
        numbers = put(store, a_new_job(), a_new_job(tags=tags))
        assert claimed_with(store, claims) == (numbers, again), tags


@ON_POSTGRES
def test_what_a_claim_has_learned_about_one_queue_holds_for_that_queue(store: PostgresStore) -> None:
    """A worker with a plain queue and one whose jobs all have tags claims from both in turn."""
    claims, again = Claims(), list[int]()
    for _ in range(3):
        put(store, a_new_job(queue="plain"), a_new_job(queue="mail", tags=("a",)))
        again += [claimed_with(store, claims, queue=queue)[1] for queue in ("plain", "mail")]
    assert again == [0, 1, 0, 0, 0, 0]


@ON_POSTGRES
def test_a_job_that_is_lost_before_it_is_read_again_is_not_claimed(store: PostgresStore) -> None:
    """The lease ran out, and the job was queued again, between the two statements of a frozen process."""
    plain, rare = put(store, a_new_job(), a_new_job(tags=("a",)))
    claimed, _ = claimed_with(store, Claims(), lambda: lose(store, now=NOON + 2 * LEASE))
    assert claimed == [plain]
    assert rare in [job.number for job in take(store, now=NOON + 2 * LEASE)]
