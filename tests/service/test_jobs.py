"""Document 000 over HTTP: enqueue, pull, ack, fail, as printed and beyond."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from horae.actions.access.tokens import create_token
from horae.actions.jobs import claims
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.definitions import store_definitions
from horae.core.access.callers import Caller
from horae.core.jobs.job import Job
from horae.core.time.instants import iso
from horae.ports.definitions import StoredDefinition
from horae.ports.workers import Node
from horae.ports.world import World
from horae.service.auth.holders import Holders
from horae.service.dialects.job_shapes import EXAMPLE as EXAMPLE_JOB
from horae.service.dialects.job_shapes import JobShape
from horae.testing.builders import a_job
from horae.testing.clock import VirtualClock
from tests.support.serving import serving

Connect = Callable[..., TestClient]
JOBS = "/scheduler/jobs"
PULL = f"{JOBS}/pull"
GOVERNED = {"object_type": "memory", "object_id": "m_1", "action": "verify"}
QUEUES = ("scheduler", "mine", "default", "mail")


def put(client: TestClient, **fields: Any) -> dict[str, Any]:
    """A new job, as answered."""
    answer = client.post(JOBS, json={"handler": "work", **fields})
    assert answer.status_code == 201, answer.text
    response: dict[str, Any] = answer.json()
    return response


def pull(client: TestClient, **fields: Any) -> list[dict[str, Any]]:
    answer = client.post(PULL, json={"worker_id": "worker-1", **fields})
    assert answer.status_code == 200, answer.text
    jobs: list[dict[str, Any]] = answer.json()["jobs"]
    return jobs


def tell(client: TestClient, job: dict[str, Any], verb: str, **fields: Any) -> Any:
    return client.post(f"{JOBS}/{job['job_id']}/{verb}", json=fields)


def look(client: TestClient, job: dict[str, Any]) -> dict[str, Any]:
    response: dict[str, Any] = client.get(f"{JOBS}/{job['job_id']}").json()
    return response


# -- as printed --------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> VirtualClock:
    """Shortly before the instants that document 000's examples name."""
    return VirtualClock("2026-02-20T23:59:00Z")


EXAMPLE = {
    "object_type": "cognition",
    "object_id": "cg_123",
    "action": "revalidate",
    "run_at": "2026-02-21T00:00:00Z",
    "priority": "medium",
}
PULL_EXAMPLE = {"now": "2026-02-21T00:00:10Z", "limit": 100, "worker_id": "worker-1"}
ACK_EXAMPLE = {"result": "succeeded", "audit_event_id": "aud_789", "next_action_at": "2026-02-28T00:00:00Z"}
FAIL_EXAMPLE = {"error": "timeout while verifying evidence", "retry_delay_sec": 300}


def test_the_examples_of_document_000_work_as_printed(alice: TestClient, clock: VirtualClock) -> None:
    """S0-5, S0-7, S0-10…S0-16."""
    stored = alice.post(JOBS, json=EXAMPLE)
    assert stored.status_code == 201
    job = stored.json()
    assert job.items() >= {**EXAMPLE, "attempt": 0, "max_attempts": 3, "status": "queued", "last_error": None}.items()
    assert job["job_id"].startswith("job_")
    assert stored.headers["location"] == f"{JOBS}/{job['job_id']}"

    clock.advance(timedelta(seconds=70))
    (pulled,) = alice.post(PULL, json=PULL_EXAMPLE).json()["jobs"]
    assert (pulled["job_id"], pulled["status"], pulled["worker_id"]) == (job["job_id"], "running", "worker-1")

    acked = alice.post(f"{JOBS}/{job['job_id']}/ack", json=ACK_EXAMPLE)
    assert (acked.status_code, acked.json()["status"]) == (200, "succeeded")
    (run,) = alice.get(f"{JOBS}/{job['job_id']}/runs").json()["runs"]
    assert (run["audit_event_id"], run["next_action_at"]) == ("aud_789", "2026-02-28T00:00:00Z")


def test_three_failures_as_printed_end_among_the_dead_letters(alice: TestClient, clock: VirtualClock) -> None:
    """S0-17…S0-20, C-12: each retry is due at run_at plus the delay; the third failure is the last."""
    job = alice.post(JOBS, json=EXAMPLE).json()
    response = []
    for _ in range(3):
        clock.advance(timedelta(minutes=6))
        assert len(alice.post(PULL, json=PULL_EXAMPLE).json()["jobs"]) == 1
        answer = alice.post(f"{JOBS}/{job['job_id']}/fail", json=FAIL_EXAMPLE)
        assert answer.status_code == 200, answer.text
        response.append((answer.json()["status"], answer.json()["attempt"]))
    assert response == [("queued", 1), ("queued", 2), ("dead_letter", 3)]
    (dead,) = alice.get("/scheduler/dead-letters").json()["jobs"]
    assert (dead["job_id"], dead["last_error"]) == (job["job_id"], FAIL_EXAMPLE["error"])


def test_a_retry_delay_counts_from_run_at_unless_that_has_passed(alice: TestClient, clock: VirtualClock) -> None:
    """C-12."""
    job = alice.post(JOBS, json=EXAMPLE).json()
    clock.advance(timedelta(seconds=70))
    pull(alice)
    assert tell(alice, job, "fail", **FAIL_EXAMPLE).json()["run_at"] == "2026-02-21T00:05:00Z"
    clock.advance(timedelta(hours=1))
    pull(alice)
    assert tell(alice, job, "fail", **FAIL_EXAMPLE).json()["run_at"] == iso(clock.now() + timedelta(minutes=5))


def test_the_clock_of_the_server_rules(alice: TestClient, connect: Connect) -> None:
    """C-36, S0-21: a client's now is ignored, except in a simulation."""
    alice.post(JOBS, json=EXAMPLE)
    assert alice.post(PULL, json=PULL_EXAMPLE).json() == {"jobs": [], "now": "2026-02-20T23:59:00Z"}
    simulated = connect("alice", "worker", simulation=True).post(PULL, json=PULL_EXAMPLE).json()
    assert [job["leased_until"] for job in simulated["jobs"]] == ["2026-02-21T00:02:10Z"]
    assert simulated["now"] == "2026-02-21T00:00:10Z"


# -- enqueue -----------------------------------------------------------------------------------------------------


def test_a_time_in_the_past_is_refused_with_a_little_patience(alice: TestClient, clock: VirtualClock) -> None:
    """S0-9, C-18: five seconds of clock difference are forgiven."""
    late = alice.post(JOBS, json={"handler": "work", "run_at": iso(clock.now() - timedelta(seconds=6))})
    assert (late.status_code, late.json()["code"]) == (422, "past_due")
    put(alice, run_at=iso(clock.now() - timedelta(seconds=4)))


def test_the_same_request_with_the_same_key_is_the_same_job(alice: TestClient, clock: VirtualClock) -> None:
    """S0-8: also when it is repeated after its time has come."""
    asked = {"handler": "work", "idempotency_key": "k", "run_at": iso(clock.now() + timedelta(seconds=1))}
    first = alice.post(JOBS, json=asked)
    again = alice.post(JOBS, json=asked)
    clock.advance(timedelta(minutes=1))
    late = alice.post(JOBS, json=asked)
    assert [each.status_code for each in (first, again, late)] == [201, 200, 200]
    assert [each.json()["deduplicated"] for each in (first, again, late)] == [False, True, True]
    assert len({each.json()["job_id"] for each in (first, again, late)}) == 1


def test_a_repetition_does_not_open_the_door_to_the_past(alice: TestClient, clock: VirtualClock) -> None:
    """S0-9: of a batch with a known and an unknown late job nothing is stored."""
    known = {"handler": "work", "idempotency_key": "k", "run_at": iso(clock.now())}
    put(alice, **known)
    clock.advance(timedelta(minutes=1))
    unknown = {**known, "idempotency_key": "other"}
    answer = alice.post(f"{JOBS}/bulk", json={"jobs": [known, unknown]})
    assert (answer.status_code, answer.json()["code"]) == (422, "past_due")
    assert len(alice.get(JOBS).json()["jobs"]) == 1


def test_the_same_key_for_another_request_is_a_conflict(alice: TestClient) -> None:
    put(alice, idempotency_key="k")
    answer = alice.post(JOBS, json={"handler": "other", "idempotency_key": "k"})
    assert (answer.status_code, answer.json()["code"]) == (409, "key_conflict")


def test_the_header_is_the_field(alice: TestClient) -> None:
    first = alice.post(JOBS, json={"handler": "work"}, headers={"Idempotency-Key": "k"})
    again = alice.post(JOBS, json={"handler": "work", "idempotency_key": "k"}, headers={"Idempotency-Key": "k"})
    other = alice.post(JOBS, json={"handler": "work", "idempotency_key": "j"}, headers={"Idempotency-Key": "k"})
    assert [each.status_code for each in (first, again, other)] == [201, 200, 422]
    assert first.json()["idempotency_key"] == "k"


@pytest.mark.slow
def test_fifty_parallel_requests_with_one_key_make_one_job(database_url: str) -> None:
    """S0-8, on every database, over real connections."""
    with serving(database_url) as served, ThreadPoolExecutor(50) as callers:
        headers = {"Authorization": f"Bearer {served.token('alice')}", "Idempotency-Key": "once"}

        def ask(_: int) -> httpx.Response:
            return httpx.post(served.url + JOBS, json={"handler": "work"}, headers=headers, timeout=60)

        answers = list(callers.map(ask, range(50)))
        assert sorted(each.status_code for each in answers) == [200] * 49 + [201]
        assert len({each.json()["job_id"] for each in answers}) == 1
        assert len(verbs.find(served.world)) == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"object_type": "memory", "object_id": "m1"},
        {**EXAMPLE, "object_type": "dream"},
        {**EXAMPLE, "action": "forget"},
        {**EXAMPLE, "run_at": "2026-02-21T00:00:00"},
        {**EXAMPLE, "run_at": 1771632000},
        {**EXAMPLE, "priority": "urgent"},
        {**EXAMPLE, "max_attempts": 0},
        {**EXAMPLE, "object_id": "a\x00b"},
        {"handler": "work", "delay_sec": -1},
        {"handler": "work", "delay_sec": 1e300},
        {"handler": "work", "delay_sec": 1, "run_at": "2026-02-21T00:00:00Z"},
        {"handler": "work", "payload": {"a": "b\x00"}},
        {"handler": "two words"},
        {"handler": "work", "tags": ["x"] * 51},
        {"handler": "work", "idempotency_key": "x" * 256},
        {"handler": "work", "retry": {"kind": "none"}, "max_attempts": 2},
        {"handler": "work", "colour": "red"},
        {"handler": "work", "queue": ""},
        {"handler": "work", "timeout_sec": 0},
        {"handler": "work", "timeout_sec": 1e300},
        {"handler": "work", "max_attempts": 10**12},
        [],
        "text",
    ],
)
def test_what_cannot_be_accepted_is_refused_in_words(alice: TestClient, body: Any) -> None:
    """S0-3, S0-4, C-27: 422, and never a 500."""
    answer = alice.post(JOBS, json=body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_job_keeps_what_it_was_given(alice: TestClient, world: World) -> None:
    retry = {"kind": "exponential", "delay_sec": 2, "factor": 3, "cap_sec": 60, "jitter": False}
    job = put(alice, payload=[1], tags=["a"], unique="u", timeout_sec=9, trace_id="t", max_attempts=5, retry=retry)
    assert job.items() >= {"payload": [1], "tags": ["a"], "unique": "u", "timeout_sec": 9, "trace_id": "t"}.items()
    stored = verbs.get(world, job["job_id"])
    assert (stored.retry.kind, stored.retry.factor, stored.max_attempts, stored.owner) == ("exponential", 3, 5, "alice")


def test_a_batch_is_stored_whole_or_not_at_all(alice: TestClient) -> None:
    good = {"handler": "work", "idempotency_key": "a"}
    bad = {"handler": "other", "idempotency_key": "a"}
    refused = alice.post(f"{JOBS}/bulk", json={"jobs": [good, bad]})
    assert (refused.status_code, refused.json()["code"]) == (409, "key_conflict")
    assert alice.get(JOBS).json()["jobs"] == []
    stored = alice.post(f"{JOBS}/bulk", json={"jobs": [good, {"handler": "work"}]})
    assert (stored.status_code, stored.json()["created"], len(stored.json()["jobs"])) == (201, 2, 2)


def test_a_tenants_job_waits_until_its_handler_is_open_whoever_is_alive(
    alice: TestClient, operator: TestClient, world: World
) -> None:
    """Also while no worker of the house is there: what is stored decides, and nothing is stored for this handler."""
    job = put(alice, handler="wipe-customer", queue="mail")
    assert claims.pull(world, worker_id="n1", queues=("mail",)) == []
    assert pull(operator, queues=["mail"]) == []
    assert alice.get(f"{JOBS}/{job['job_id']}").json()["held"] is True
    (reason, *_) = alice.get(f"{JOBS}/{job['job_id']}/why").json()["reasons"]
    assert (reason["code"], "'wipe-customer'" in reason["text"]) == ("closed", True)

    store_definitions(world, [StoredDefinition("wipe-customer", "mail", tenants=True)])
    assert [each["job_id"] for each in pull(operator, queues=["mail"])] == [job["job_id"]]


def test_a_tenants_own_worker_gets_what_the_house_leaves_alone(
    alice: TestClient, bob: TestClient, world: World
) -> None:
    job = put(alice, handler="resize", queue="default")
    assert claims.pull(world, worker_id="n1") == []
    assert pull(bob, queues=["default"]) == []
    (pulled,) = pull(alice, queues=["default"])
    assert (pulled["job_id"], pulled["held"]) == (job["job_id"], False)
    assert tell(alice, job, "ack", token=pulled["token"]).json()["status"] == "succeeded"


# -- pull --------------------------------------------------------------------------------------------------------


def test_jobs_come_by_time_and_then_by_priority(alice: TestClient, clock: VirtualClock) -> None:
    """S0-11, S0-12, S0-22, C-19."""
    soon, later = iso(clock.now() + timedelta(seconds=1)), iso(clock.now() + timedelta(seconds=2))
    names = {"late-high": (later, "high"), "low": (soon, "low"), "high": (soon, "high"), "medium": (soon, "medium")}
    for name, (when, priority) in names.items():
        put(alice, handler=name, run_at=when, priority=priority)
    put(alice, handler="tomorrow", delay_sec=86400)
    clock.advance(timedelta(seconds=5))
    assert [job["handler"] for job in pull(alice)] == ["high", "medium", "low", "late-high"]
    assert pull(alice) == []


def test_a_worker_that_falls_silent_loses_its_job_to_the_next_pull(alice: TestClient, clock: VirtualClock) -> None:
    """Also where no other process looks after leases."""
    put(alice)
    (first,) = pull(alice, lease_sec=10)
    clock.advance(timedelta(seconds=11))
    (second,) = pull(alice, worker_id="worker-2")
    assert (second["job_id"], second["attempt"]) == (first["job_id"], 1)
    assert second["token"] > first["token"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"worker_id": ""},
        {"worker_id": "w", "limit": 0},
        {"worker_id": "w", "limit": 1001},
        {"worker_id": "w", "wait": 31},
        {"worker_id": "w", "lease_sec": 0},
        {"worker_id": "w", "queues": []},
        {"worker_id": "w", "queues": ["a b"]},
        {"worker_id": "a\nb"},
    ],
)
def test_a_pull_that_makes_no_sense_is_refused(alice: TestClient, body: dict[str, Any]) -> None:
    assert alice.post(PULL, json=body).status_code == 422


def test_scopes_and_queues_of_a_token_are_kept(connect: Connect) -> None:
    wanted = {"worker_id": "w", "queues": ["mail"]}
    assert connect("alice", "tasks").post(PULL, json=wanted).status_code == 403
    assert connect("alice", "read").post(JOBS, json={"handler": "work"}).status_code == 403
    assert connect("alice", "read").get(JOBS).status_code == 200
    assert connect("alice", "worker", queues=("reports",)).post(PULL, json=wanted).status_code == 403
    assert connect().post(PULL, json=wanted).status_code == 401


def test_which_queue_a_tenant_may_use_does_not_depend_on_who_is_alive(
    connect: Connect, alice: TestClient, world: World, clock: VirtualClock
) -> None:
    """What keeps its jobs from the house's handlers is decided when they are claimed; a token may narrow it."""
    response = []
    for queues in ({}, {"mail": 5}):
        node = Node("n1", "host", 1, "test", clock.now(), clock.now(), queues)
        world.store.transact(lambda tx, node=node: tx.nodes.put(node))  # type: ignore[misc]
        response.append(
            {queue: alice.post(JOBS, json={"handler": "w", "queue": queue}).status_code for queue in QUEUES}
        )

    assert response == [dict.fromkeys(QUEUES, 201)] * 2
    narrow = connect("alice", "tasks", queues=("mail",))
    assert narrow.post(JOBS, json={"handler": "w", "queue": "mail"}).is_success
    assert narrow.post(JOBS, json={"handler": "w", "queue": "mine"}).status_code == 403
    bulk = {"jobs": [{"handler": "w", "queue": "mail"}, {"handler": "w"}]}
    assert narrow.post(f"{JOBS}/bulk", json=bulk).status_code == 403


@pytest.mark.parametrize("fields", [{"handler": ""}, {"idempotency_key": ""}, GOVERNED | {"idempotency_key": ""}])
def test_an_empty_name_is_not_taken_for_a_missing_one(alice: TestClient, fields: dict[str, Any]) -> None:
    """S0-8: a client that forgot to fill its key in would otherwise enqueue twice."""
    answer = alice.post(JOBS, json={"handler": "work", **fields})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_name")
    assert alice.post(JOBS, json={"handler": "work"}, headers={"Idempotency-Key": ""}).status_code == 422
    assert alice.get(JOBS).json()["jobs"] == []


@pytest.mark.parametrize("name", ["idempotency_key", "unique"])
def test_twins_in_one_call_are_one_job_that_is_new(alice: TestClient, name: str) -> None:
    """S0-8."""
    twins = {"jobs": [{"handler": "work", name: "k"}] * 2}
    stored, again = (alice.post(f"{JOBS}/bulk", json=twins) for _ in range(2))
    assert (stored.status_code, stored.json()["created"]) == (201, 1)
    assert [each["deduplicated"] for each in stored.json()["jobs"]] == [False, True]
    assert len({each["job_id"] for each in stored.json()["jobs"]}) == 1
    assert (again.status_code, again.json()["created"]) == (200, 0)


def test_twins_that_differ_are_told_whom_they_contradict(alice: TestClient) -> None:
    jobs = [{"handler": "work", "idempotency_key": "k"}, {"handler": "play", "idempotency_key": "k"}]
    answer = alice.post(f"{JOBS}/bulk", json={"jobs": jobs})
    assert (answer.status_code, answer.json()["code"]) == (409, "key_conflict")
    assert "another job of the same call" in answer.json()["detail"]


def test_a_repeated_bulk_call_with_the_same_header_answers_with_the_same_jobs(alice: TestClient) -> None:
    """S0-8, for whoever lost the answer of a whole batch."""
    jobs = {
        "jobs": [{"handler": "work"}, {"handler": "work"}, {"handler": "play", "idempotency_key": "mine"}, GOVERNED]
    }
    first, again = (alice.post(f"{JOBS}/bulk", json=jobs, headers={"Idempotency-Key": "import-7"}) for _ in range(2))
    assert (first.status_code, first.json()["created"]) == (201, 4)
    assert (again.status_code, again.json()["created"]) == (200, 0)
    assert [each["job_id"] for each in again.json()["jobs"]] == [each["job_id"] for each in first.json()["jobs"]]
    assert all(each["deduplicated"] for each in again.json()["jobs"])
    keys = ["import-7#0", "import-7#1", "mine", "import-7#3"]
    assert [each["idempotency_key"] for each in first.json()["jobs"]] == keys


@pytest.mark.parametrize(
    "other",
    [
        [{"handler": "work"}, {"handler": "rest"}, {"handler": "play", "idempotency_key": "mine"}],
        [{"handler": "work"}, {"handler": "work"}],
        [{"handler": "work"}, {"handler": "work"}, {"handler": "play", "idempotency_key": "another"}],
        [{"handler": "work"}, {"handler": "play", "idempotency_key": "mine"}, {"handler": "work"}],
        [*[{"handler": "work"}] * 2, {"handler": "play", "idempotency_key": "mine"}, {"handler": "work"}],
    ],
    ids=["another job", "fewer", "another key", "another order", "more"],
)
def test_a_bulk_call_that_reuses_the_header_for_other_jobs_is_a_conflict(
    alice: TestClient, other: list[dict[str, Any]]
) -> None:
    jobs = [{"handler": "work"}, {"handler": "work"}, {"handler": "play", "idempotency_key": "mine"}]
    key = {"Idempotency-Key": "import-7"}
    assert alice.post(f"{JOBS}/bulk", json={"jobs": jobs}, headers=key).status_code == 201
    answer = alice.post(f"{JOBS}/bulk", json={"jobs": other}, headers=key)
    assert (answer.status_code, answer.json()["code"]) == (409, "key_conflict")
    assert len(alice.get(JOBS).json()["jobs"]) == 3


def test_the_header_of_a_bulk_call_is_each_tenants_own(alice: TestClient, bob: TestClient) -> None:
    response = [
        client.post(f"{JOBS}/bulk", json={"jobs": [{"handler": "work"}]}, headers={"Idempotency-Key": "once"})
        for client in (alice, bob)
    ]
    assert [each.status_code for each in response] == [201, 201]


def test_the_longest_header_of_a_bulk_call_tells_calls_apart(alice: TestClient) -> None:
    long = [{"Idempotency-Key": "k" * 254 + end} for end in ("a", "b", "a")]
    response = [alice.post(f"{JOBS}/bulk", json={"jobs": [{"handler": "work"}] * 2}, headers=each) for each in long]
    assert [each.status_code for each in response] == [201, 201, 200]
    empty = alice.post(f"{JOBS}/bulk", json={"jobs": [{"handler": "work"}]}, headers={"Idempotency-Key": ""})
    assert empty.status_code == 422


# -- the token ---------------------------------------------------------------------------------------------------


def test_a_stale_token_is_refused_and_changes_nothing(alice: TestClient, clock: VirtualClock) -> None:
    """I3, security check 17."""
    put(alice)
    (zombie,) = pull(alice, lease_sec=10)
    clock.advance(timedelta(seconds=11))
    (holder,) = pull(alice, worker_id="worker-2")
    before = look(alice, holder)
    for verb in ("ack", "fail", "renew", "progress", "release"):
        answer = tell(alice, zombie, verb, **ACTS[verb] | {"token": zombie["token"]})
        assert (answer.status_code, answer.json()["code"]) == (409, "lease_lost"), verb
    assert look(alice, holder) == before
    assert tell(alice, holder, "ack", token=holder["token"], result={"ok": True}).json()["result"] == {"ok": True}


def test_without_a_token_nobody_ends_what_another_may_hold(alice: TestClient, clock: VirtualClock) -> None:
    """Document 000 shows no token; after a loss only a token can tell the holder from the one that fell silent."""
    put(alice)
    pull(alice, lease_sec=10)
    clock.advance(timedelta(seconds=11))
    (holder,) = pull(alice, worker_id="worker-2")
    answer = tell(alice, holder, "ack", result="succeeded")
    assert (answer.status_code, answer.json()["code"]) == (409, "token_needed")
    assert look(alice, holder)["status"] == "running"
    assert tell(alice, holder, "ack", result="succeeded", token=holder["token"]).status_code == 200


def test_without_a_token_a_lease_that_ran_out_is_no_lease(alice: TestClient, clock: VirtualClock) -> None:
    job = put(alice)
    pull(alice, lease_sec=10)
    clock.advance(timedelta(seconds=10))
    answer = tell(alice, job, "fail", error="x")
    assert (answer.status_code, answer.json()["code"]) == (409, "token_needed")


def test_without_a_token_a_job_that_was_given_back_needs_one(alice: TestClient) -> None:
    put(alice)
    (first,) = pull(alice)
    assert tell(alice, first, "release", token=first["token"], reason="restart").json()["status"] == "queued"
    (second,) = pull(alice)
    assert second["attempt"] == 0
    assert tell(alice, second, "ack").json()["code"] == "token_needed"


def test_without_a_token_a_job_that_does_not_run_cannot_end(alice: TestClient) -> None:
    job = put(alice)
    answer = tell(alice, job, "ack", result="succeeded")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_allowed")


def test_without_a_token_only_the_caller_who_pulled_a_job_ends_it(alice: TestClient, world: World) -> None:
    """Another token of the same tenant, or an operator's, may end it with the token of the pull alone."""
    job = put(alice)
    pull(alice)
    mine = alice.headers["Authorization"]
    for owner in ("alice", "system"):
        _, text = create_token(world, owner=owner, scopes=("worker",))
        alice.headers["Authorization"] = f"Bearer {text}"
        for verb, said in (("ack", {"result": "succeeded"}), ("fail", {"error": "x"})):
            answer = tell(alice, job, verb, **said)
            assert (answer.status_code, answer.json()["code"]) == (409, "token_needed"), (owner, verb)
        assert look(alice, job)["status"] == "running"
    alice.headers["Authorization"] = mine
    assert tell(alice, job, "ack", result="succeeded").json()["status"] == "succeeded"


def test_without_a_token_another_process_of_the_service_believes_the_jobs_history(
    connect: Connect, alice: TestClient
) -> None:
    """Who pulled is known only where it was pulled; document 000's worker must outlive a restart of the service."""
    job = put(alice)
    pull(alice)
    assert tell(connect("alice", "worker"), job, "ack", result="succeeded").json()["status"] == "succeeded"


def test_without_a_token_nobody_ends_what_a_worker_of_the_house_holds(
    alice: TestClient, world: World, clock: VirtualClock
) -> None:
    job = put(alice, handler="dispatch")
    world.store.transact(lambda tx: tx.nodes.put(Node("n1", "host", 1, "test", clock.now(), clock.now(), {})))
    (held,) = claims.pull(world, worker_id="n1", queues=("scheduler",))
    answer = tell(alice, job, "ack", result="succeeded")
    assert (answer.status_code, answer.json()["code"]) == (409, "token_needed")
    assert tell(alice, job, "ack", token=held.token).json()["status"] == "succeeded"


def test_only_so_many_pulls_are_remembered() -> None:
    holders, caller = Holders(most=2), Caller("alice", frozenset({"worker"}), "user/alice")
    jobs = [a_job(number=number, token=1) for number in (1, 2, 3)]
    holders.note(jobs, caller)
    assert [holders.have(job, caller) for job in jobs] == [False, True, True]


def test_a_worker_that_names_itself_must_be_the_holder(alice: TestClient) -> None:
    job = put(alice)
    pull(alice)
    assert tell(alice, job, "ack", worker_id="worker-2").json()["code"] == "lease_lost"
    assert tell(alice, job, "ack", worker_id="worker-1").json()["status"] == "succeeded"


def test_an_ack_that_says_failed_is_sent_to_fail(alice: TestClient) -> None:
    job = put(alice)
    pull(alice)
    answer = tell(alice, job, "ack", result="failed")
    assert answer.status_code == 422
    assert (answer.json()["reason"], answer.json()["facts"]) == ("failure_acknowledged", {"id": job["job_id"]})


@pytest.mark.parametrize("result", [None, 0, "done", [1], {"a": {"b": None}}])
def test_any_json_can_be_a_result(alice: TestClient, result: Any) -> None:
    job = put(alice)
    pull(alice)
    assert tell(alice, job, "ack", result=result).json()["result"] == result


def test_a_job_that_a_caller_s_fail_ends_for_good_is_told_in_this_process(connect: Connect) -> None:
    """S0-20: and only then; one that is tried again is no news."""
    heard: list[Job] = []

    async def died(job: Job) -> None:
        heard.append(job)

    alice = connect("alice", "tasks", "worker", died=died)
    again, dead = put(alice), put(alice)
    pull(alice)
    tell(alice, again, "fail", error="once more")
    tell(alice, dead, "fail", error="no such file", final=True)

    assert [(job.id, job.state, job.last_error) for job in heard] == [(dead["job_id"], "dead", "no such file")]


def test_a_final_failure_is_not_tried_again(alice: TestClient) -> None:
    job = put(alice)
    pull(alice)
    assert tell(alice, job, "fail", error="no such file", final=True).json()["status"] == "dead_letter"


def test_renewal_keeps_a_job_and_tells_that_it_should_stop(alice: TestClient, clock: VirtualClock) -> None:
    put(alice)
    (job,) = pull(alice, lease_sec=10)
    clock.advance(timedelta(seconds=9))
    renewed = tell(alice, job, "renew", token=job["token"], lease_sec=10).json()
    assert (renewed["leased_until"], renewed["cancel_requested"]) == (iso(clock.now() + timedelta(seconds=10)), False)
    assert tell(alice, job, "cancel", reason="not needed").json()["status"] == "running"
    assert tell(alice, job, "renew", token=job["token"]).json()["cancel_requested"]
    assert tell(alice, job, "fail", token=job["token"], error="stopped").json()["status"] == "cancelled"


def test_progress_and_checkpoint_outlive_a_failure(alice: TestClient, clock: VirtualClock) -> None:
    put(alice)
    (job,) = pull(alice)
    response = tell(alice, job, "progress", token=job["token"], value={"done": 3}, checkpoint={"page": 3}).json()
    assert (response["progress"], response["checkpoint"]) == ({"done": 3}, {"page": 3})
    tell(alice, job, "fail", token=job["token"], error="x", retry_delay_sec=1)
    clock.advance(timedelta(minutes=1))
    assert pull(alice)[0]["checkpoint"] == {"page": 3}
    assert tell(alice, job, "progress", token=job["token"]).status_code == 422


# -- tenants -----------------------------------------------------------------------------------------------------

ACTS: dict[str, dict[str, Any]] = {
    "ack": {"token": 1},
    "fail": {"token": 1, "error": "x"},
    "renew": {"token": 1},
    "progress": {"token": 1, "value": 1},
    "release": {"token": 1},
    "cancel": {},
    "revive": {},
    "reschedule": {"priority": "high"},
}


def test_a_foreign_job_does_not_exist(alice: TestClient, bob: TestClient) -> None:
    """C-27: the same answer as for an id that nobody has."""
    hers = put(alice, queue="scheduler")
    (held,) = pull(alice)

    def bodies(job_id: str) -> list[tuple[int, str]]:
        answers = [bob.get(f"{JOBS}/{job_id}{what}") for what in ("", "/runs", "/why")]
        answers += [bob.post(f"{JOBS}/{job_id}/{verb}", json=body) for verb, body in ACTS.items()]
        answers += [bob.post(f"{JOBS}/{job_id}/ack", json={"result": "succeeded"})]
        return [(each.status_code, each.text.replace(job_id, "…")) for each in answers]

    foreign, missing = bodies(hers["job_id"]), bodies("job_987654")
    assert foreign == missing
    assert {status for status, _ in foreign} == {404}
    assert look(alice, held) == held


def test_a_job_waits_for_others_and_is_cancelled_with_them(alice: TestClient) -> None:
    parent = put(alice)
    child = put(alice, after=[parent["job_id"]])
    runs_on = put(alice, after=[parent["job_id"]], on_parent_dead="run")
    assert (child["status"], child["held"]) == ("queued", True)
    response = alice.get(f"{JOBS}/{child['job_id']}/why").json()["reasons"]
    assert f"it waits for {parent['job_id']} (queued) to succeed" in [reason["text"] for reason in response]

    tell(alice, parent, "cancel")

    assert look(alice, child)["status"] == "cancelled"
    assert [job["job_id"] for job in pull(alice)] == [runs_on["job_id"]]
    late = put(alice, after=[parent["job_id"]])
    assert (late["status"], late["cancel_reason"]) == (
        "cancelled",
        f"{parent['job_id']}, which it waited for, was cancelled",
    )


@pytest.mark.parametrize("fields", [{"after": ["job_x"]}, {"after": "job_1"}, {"on_parent_dead": "perhaps"}], ids=str)
def test_a_wait_that_makes_no_sense_is_refused(alice: TestClient, fields: dict[str, Any]) -> None:
    assert alice.post(JOBS, json={"handler": "work", **fields}).status_code == 422


def test_nobody_waits_for_a_foreign_job(alice: TestClient, bob: TestClient) -> None:
    """It would tell whether there is one, and how it fares."""
    theirs = put(bob)

    for parent in (theirs["job_id"], "job_999999"):
        answer = alice.post(JOBS, json={"handler": "work", "after": [parent]})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        bulk = alice.post(f"{JOBS}/bulk", json={"jobs": [{"handler": "work", "after": [parent]}]})
        assert bulk.status_code == 404


def test_nobody_pulls_or_lists_what_is_not_his(
    alice: TestClient, bob: TestClient, operator: TestClient, world: World
) -> None:
    store_definitions(world, [StoredDefinition("hers", "scheduler", tenants=True)])
    put(alice, handler="hers")
    put(bob, handler="his")
    put(operator, handler="the-house")
    assert [job["handler"] for job in bob.get(JOBS).json()["jobs"]] == ["his"]
    assert [job["handler"] for job in pull(bob)] == ["his"]
    assert {job["owner"] for job in operator.get(JOBS).json()["jobs"]} == {"alice", "bob", "system"}
    assert [job["handler"] for job in pull(operator)] == ["hers", "the-house"]


def test_keys_and_slots_are_not_shared_between_tenants(alice: TestClient, bob: TestClient) -> None:
    hers = put(alice, idempotency_key="k", unique="u", concurrency_key="one")
    waiting = put(alice, concurrency_key="one")
    his = put(bob, idempotency_key="k", unique="u", concurrency_key="one")
    assert hers["job_id"] != his["job_id"]
    assert hers["concurrency_key"] == his["concurrency_key"] == "one"
    assert len(pull(alice)) == len(pull(bob)) == 1
    (reason,) = [
        each for each in alice.get(f"{JOBS}/{waiting['job_id']}/why").json()["reasons"] if each["code"] == "concurrency"
    ]
    assert "'one'" in reason["text"]


def test_names_of_tenants_cannot_be_made_to_meet(connect: Connect) -> None:
    """The prefix of one tenant's keys is never the beginning of another's."""
    put(connect("a"), handler="dispatch", concurrency_key="b:c")
    put(connect("a:b"), handler="dispatch", concurrency_key="c")
    assert len(pull(connect("system", "admin"))) == 2


# -- by hand -----------------------------------------------------------------------------------------------------


def test_a_list_goes_on_where_its_page_ended(alice: TestClient, bob: TestClient) -> None:
    ids = [put(alice)["job_id"] for _ in range(5)]
    put(bob)
    seen: list[str] = []
    cursor = None
    while True:
        page = alice.get(JOBS, params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [job["job_id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ids[::-1]
    assert alice.get(JOBS, params={"cursor": "nonsense"}).status_code == 422


def test_filters_narrow_and_speak_the_documents_words(alice: TestClient) -> None:
    """C-21."""
    put(alice, handler="a", tags=["red"])
    put(alice, object_type="memory", object_id="m1", action="verify")
    dead = put(alice, handler="b", priority="high")
    pull(alice, limit=3)
    tell(alice, dead, "fail", error="x", final=True)

    def found(**wanted: Any) -> list[str]:
        return [job["handler"] for job in alice.get(JOBS, params=wanted).json()["jobs"]]

    assert found(status="dead_letter") == found(state="dead") == ["b"]
    assert found(status=["running", "dead_letter"]) == ["b", "work", "a"]
    assert found(status="failed") == []
    assert found(tag="red") == found(handler="a") == ["a"]
    assert found(object_type="memory", object_id="m1") == ["work"]
    assert found(queue="elsewhere") == []
    assert alice.get(JOBS, params={"status": "lost"}).status_code == 422
    assert alice.get(JOBS, params={"tag": "a\x00"}).status_code == 422


def test_dead_letters_are_counted_first_and_then_revived(alice: TestClient, bob: TestClient) -> None:
    """S0-24 and what follows it."""
    for client in (alice, alice, bob):
        job = put(client)
        pull(client)
        tell(client, job, "fail", error="x", final=True)
    counted = alice.post(f"{JOBS}/revive", json={"handler": "work"}).json()
    assert counted == {"matched": 2, "revived": 0, "refused": {}, "dry_run": True, "more": False}
    revived = alice.post(f"{JOBS}/revive", json={"handler": "work", "dry_run": False}).json()
    assert (revived["matched"], revived["revived"]) == (2, 2)
    assert [job["attempt"] for job in pull(alice)] == [0, 0]
    assert len(bob.get("/scheduler/dead-letters").json()["jobs"]) == 1


def test_a_waiting_job_can_be_moved_cancelled_and_explained(alice: TestClient, clock: VirtualClock) -> None:
    job = put(alice, delay_sec=60)
    when = iso(clock.now() + timedelta(hours=1))
    moved = tell(alice, job, "reschedule", run_at=when, priority="high").json()
    assert (moved["run_at"], moved["priority"], moved["planned_at"]) == (when, "high", job["planned_at"])
    response = alice.get(f"{JOBS}/{job['job_id']}/why").json()
    assert {reason["code"] for reason in response["reasons"]} == {"scheduled", "no_worker"}
    assert tell(alice, job, "cancel").json()["status"] == "cancelled"
    assert tell(alice, job, "revive").json()["code"] == "not_allowed"
    assert tell(alice, job, "reschedule").status_code == 422


@pytest.mark.parametrize("job_id", ["job_", "job_1x", "12", "job_-1", "job_" + "9" * 20])
def test_what_cannot_be_an_id_is_refused(alice: TestClient, job_id: str) -> None:
    assert alice.get(f"{JOBS}/{job_id}").status_code == 422
    assert alice.post(f"{JOBS}/{job_id}/ack", json={}).status_code == 422


def test_an_id_beyond_every_database_is_only_unknown(alice: TestClient) -> None:
    assert alice.get(f"{JOBS}/job_9999999999999999999").status_code == 404


def test_the_example_of_a_job_in_the_openapi_document_is_whole() -> None:
    assert set(EXAMPLE_JOB) == set(JobShape.model_fields)
    assert JobShape.model_validate(EXAMPLE_JOB).model_dump(mode="json") == EXAMPLE_JOB


@pytest.mark.parametrize("way", ["fail", "settle"])
def test_a_job_that_dies_at_our_own_door_is_told_of_too(connect: Connect, way: str) -> None:
    """S0-20, at /jobs."""
    dead: list[str] = []

    async def died(job: Job) -> None:
        dead.append(job.id)

    alice = connect("alice", "tasks", "worker", died=died)
    made = alice.post("/jobs", json={"handler": "work", "retry": {"kind": "none", "attempts": 1}}).json()
    (job,) = alice.post("/jobs/claim", json={"worker_id": "w"}).json()["items"]
    if way == "fail":
        alice.post(f"/jobs/{job['id']}/fail", json={"token": job["token"], "error": "no"})
    else:
        ending = {"job_id": job["id"], "token": job["token"], "outcome": "failed", "error": "no"}
        alice.post("/jobs/settle", json={"endings": [ending]})

    assert dead == [made["id"]]
