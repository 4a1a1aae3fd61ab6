"""Document 000's endpoints on stored objects: one job each, moved, acknowledged and told about (S0-13 to S0-16)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.governance import queries
from horae.actions.governance.invariants import check_objects
from horae.actions.governance.proposals import propose
from horae.core.access.callers import Caller
from horae.core.governance.objects import GovernedObject
from horae.core.governance.proposals import Proposal
from horae.core.time.instants import iso
from horae.ports.world import World
from horae.testing.clock import VirtualClock

JOBS = "/scheduler/jobs"
BOB = Caller("alice", frozenset({"tasks"}), "agent/bob")


@pytest.fixture
def it(world: World) -> GovernedObject:
    given: Any = {"subject": "Ann", "evidence": ["chat:1"]}
    return propose(
        world, Proposal("memory", "Ann likes tea", **given), owner="alice", caller=BOB, queue="scheduler"
    ).object


def pull(client: TestClient, worker_id: str = "worker-1") -> dict[str, Any]:
    (job,) = client.post(f"{JOBS}/pull", json={"worker_id": worker_id}).json()["jobs"]
    found: dict[str, Any] = job
    return found


def tell(client: TestClient, job: dict[str, Any], verb: str, **fields: Any) -> Any:
    return client.post(f"{JOBS}/{job['job_id']}/{verb}", json=fields)


def verbs_about(world: World, it: GovernedObject) -> list[tuple[str, str]]:
    found = queries.history(world, it.id, owner="alice").entries
    return [(entry.verb, entry.actor) for _, entry in reversed(found)]


def test_an_ack_as_printed_moves_the_object_and_answers_with_our_audit_event(
    alice: TestClient, world: World, it: GovernedObject, clock: VirtualClock
) -> None:
    job = pull(alice)
    at = iso(clock.now() + timedelta(days=5))
    answer = tell(alice, job, "ack", result="succeeded", audit_event_id="aud_789", next_action_at=at)

    assert answer.status_code == 200
    body = answer.json()
    assert (body["status"], body["object"]["status"], body["object"]["next_action_at"]) == ("succeeded", "verified", at)
    assert body["audit_event_id"].startswith("aud_")
    run = alice.get(f"{JOBS}/{job['job_id']}/runs").json()["runs"][0]
    assert (run["audit_event_id"], run["next_action_at"]) == ("aud_789", at)
    assert check_objects(world) == []


def test_a_job_asked_for_a_stored_object_is_its_one_job(
    alice: TestClient, it: GovernedObject, clock: VirtualClock
) -> None:
    at = iso(clock.now() + timedelta(days=1))
    body = {"object_type": "memory", "object_id": it.id, "action": "archive", "run_at": at, "priority": "high"}
    first, again = alice.post(JOBS, json=body), alice.post(JOBS, json=body)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["job_id"] == again.json()["job_id"] == f"job_{it.job}"
    assert first.json()["object"] == {
        "object_type": "memory", "object_id": it.id, "status": "candidate", "epistemic_state": None, "version": 2,
        "next_action": "archive", "next_action_at": at,
    }  # fmt: skip
    other = alice.post(JOBS, json=body | {"object_id": "nowhere"}).json()
    assert (other["object"], other["idempotency_key"]) == (None, f"nowhere:archive:{at}")


def test_a_bulk_of_jobs_for_stored_and_other_objects_is_all_or_none(
    alice: TestClient, it: GovernedObject, clock: VirtualClock
) -> None:
    at = iso(clock.now() + timedelta(days=1))
    stored = {"object_type": "memory", "object_id": it.id, "action": "verify", "run_at": at}
    past = iso(clock.now() - timedelta(days=1))
    refused = alice.post(f"{JOBS}/bulk", json={"jobs": [stored, stored | {"object_id": "x", "run_at": past}]})
    done = alice.post(f"{JOBS}/bulk", json={"jobs": [stored, stored | {"object_id": "x"}]})

    assert (refused.status_code, done.status_code) == (422, 201)
    assert [job["object_id"] for job in done.json()["jobs"]] == [it.id, "x"]


def test_an_unreadable_verdict_is_refused_and_the_job_stays_with_its_holder(
    alice: TestClient, world: World, it: GovernedObject
) -> None:
    job = pull(alice)
    for result in ({"verdict": "perhaps"}, {"verdict": "confirmed", "evidence": [""]}):
        answer = tell(alice, job, "ack", result=result)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")

    assert tell(alice, job, "ack", result={"verdict": "confirmed"}).status_code == 200
    assert check_objects(world) == []


def test_a_renewal_leaves_an_entry(alice: TestClient, world: World, it: GovernedObject) -> None:
    job = pull(alice)
    assert tell(alice, job, "renew", token=job["token"]).status_code == 200
    assert tell(alice, job, "renew", token=job["token"] + 1).status_code == 409
    renewed = alice.post("/jobs/renew", json={"holds": [{"job_id": job["job_id"], "token": job["token"]}]}).json()

    assert [each["held"] for each in renewed["items"]] == [True]
    assert [verb for verb, _ in verbs_about(world, it)] == ["proposed", "admitted", "renewed", "renewed"]


def test_two_workers_of_one_token_are_one_verifier(alice: TestClient, world: World, clock: VirtualClock) -> None:
    """Independent verdicts come from two callers, whatever names a worker gives itself."""
    given: Any = {"tamper": 0.9}
    it = propose(world, Proposal("memory", "forged?", **given), owner="alice", caller=BOB, queue="scheduler").object
    for name in ("one", "two"):
        job = pull(alice, name)
        tell(alice, job, "ack", result={"verdict": "refuted", "evidence": [f"web:{name}"]})
        clock.advance(timedelta(days=8))

    assert queries.get(world, it.id, owner="alice").object.state == "quarantine"


def test_cancelling_the_job_of_an_object_is_refused_with_advice(alice: TestClient, it: GovernedObject) -> None:
    answer = alice.post(f"{JOBS}/job_{it.job}/cancel")

    assert (answer.status_code, answer.json()["reason"]) == (409, "job_of_object")


def test_what_another_tenant_stores_is_no_object_here(bob: TestClient, it: GovernedObject, clock: VirtualClock) -> None:
    body = {"object_type": "memory", "object_id": it.id, "action": "verify", "run_at": iso(clock.now())}

    assert bob.post(JOBS, json=body).json()["object"] is None


def test_a_verdict_and_a_request_may_say_when_the_object_is_due_next(
    alice: TestClient, it: GovernedObject, clock: VirtualClock
) -> None:
    """An instant in a body reaches the verb as an instant."""
    soon, later = iso(clock.now() + timedelta(days=2)), iso(clock.now() + timedelta(days=3))

    concluded = alice.post(
        f"/governance/objects/{it.id}/conclude", json={"verdict": "confirmed", "next_action_at": soon}
    )
    asked = alice.post(f"/governance/objects/{it.id}/verify", json={"at": later})

    assert (concluded.status_code, concluded.json()["next_action_at"]) == (200, soon)
    assert (asked.status_code, asked.json()["next_action_at"]) == (200, later)
