"""Who may call, and how a refusal sounds."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from horae.actions.access.tokens import create_token, find_tokens, recognise, revoke_token
from horae.api.here import house
from horae.core.access.callers import mask_tokens, parse_token
from horae.errors import Forbidden, InvalidInput, NotFound, Unauthorized
from horae.ports.world import World
from horae.service import problems
from horae.testing.clock import VirtualClock
from tests.support.refusals import refused


def test_health_answers_without_a_token(nobody: TestClient) -> None:
    assert nobody.get("/healthz").json() == {"status": "ok"}


def test_an_unknown_address_is_a_problem_that_says_where_to_look(nobody: TestClient) -> None:
    answer = nobody.get("/nowhere")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not_found"


def test_the_type_of_a_problem_is_a_name_made_of_its_code(nobody: TestClient, alice: TestClient) -> None:
    """RFC 9457: stable, and no address that leads nowhere; the reference lists the codes."""
    result = [nobody.get("/nowhere").json(), nobody.get("/queues").json(), alice.get("/scheduler/jobs/job_9").json()]

    assert [each["type"] for each in result] == [f"urn:horae:error:{each['code']}" for each in result]
    page = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert "urn:horae:error:" in page
    assert all(f"`{each['code']}`" in page for each in result)
    sources = Path(problems.__file__).parent.glob("*.py")
    used = {code for file in sources for code in re.findall(r'problem\(\s*\d+,\s*"(\w+)"', file.read_text())}
    assert {code for code in used | set(problems.OWN_CODES) if f"`{code}`" not in page} == set()


def test_a_problem_tells_reason_and_facts_beside_its_code(alice: TestClient) -> None:
    result = alice.get("/jobs/job_987").json()

    assert (result["code"], result["reason"], result["facts"]) == ("not_found", "job_unknown", {"id": "job_987"})


def test_a_token_in_the_wrong_place_is_no_fact(alice: TestClient, world: World) -> None:
    _, text = create_token(world, owner="alice", scopes=["tasks"])

    result = alice.get("/jobs", params={"cursor": text}).text + alice.get(f"/jobs/{text}").text

    assert text not in result


def test_a_token_is_recognised_and_its_use_is_noted(world: World, clock: VirtualClock) -> None:
    token, text = create_token(world, owner="alice", scopes=["tasks", "worker"], title="laptop")
    caller = recognise(world, text, address="192.0.2.7")
    assert (caller.owner, caller.scopes, caller.sees) == ("alice", frozenset({"tasks", "worker"}), "alice")
    (found,) = find_tokens(world, owner="alice")
    assert (found.token_id, found.used_at, found.used_from) == (token.token_id, clock.now(), "192.0.2.7")


def test_the_secret_is_nowhere_in_the_database(world: World) -> None:
    """Security check 4: only a digest is stored."""
    _, text = create_token(world, owner="alice", scopes=["tasks"])
    parsed = parse_token(text)
    assert parsed is not None
    (found,) = find_tokens(world)
    assert parsed[1] not in repr(found)
    assert text not in mask_tokens(f"Authorization: Bearer {text}")


@pytest.mark.parametrize("length", [-1, -40, 30])
def test_a_token_that_was_cut_is_masked_too(length: int, world: World) -> None:
    """Its last eight digits can be computed from the others, and few that are missing can be tried."""
    _, text = create_token(world, owner="alice", scopes=["tasks"])
    secret = text.rpartition("_")[2]
    masked = mask_tokens(f"run_at={text[:length]}, mistyped={text[:length]}Q7.")
    assert secret[:4] not in masked
    assert masked.endswith("_….")


@pytest.mark.parametrize("change", ["expired", "revoked", "tampered", "unknown", "empty"])
def test_a_token_that_is_not_valid_is_refused_in_the_same_words(change: str, world: World, clock: VirtualClock) -> None:
    token, text = create_token(world, owner="alice", scopes=["tasks"], expires_in=timedelta(hours=1))
    if change == "expired":
        clock.advance(timedelta(hours=1))
    elif change == "revoked":
        revoke_token(world, token.token_id)
    elif change == "tampered":
        text = text[:-9] + ("0" if text[-9] != "0" else "1") + text[-8:]
    else:
        text = "" if change == "empty" else "horae_000000000000_" + "0" * 72
    with refused(Unauthorized, "token_invalid"):
        recognise(world, text)


def test_revoking_a_foreign_token_finds_nothing(world: World) -> None:
    token, text = create_token(world, owner="alice", scopes=["tasks"])
    with pytest.raises(NotFound):
        revoke_token(world, token.token_id, owner="bob")
    assert recognise(world, text).owner == "alice"


def test_an_unknown_scope_is_refused_with_the_known_ones(world: World) -> None:
    with refused(InvalidInput, "scope_unknown", choices=["tasks", "worker", "read", "review", "admin"]):
        create_token(world, owner="alice", scopes=["everything"])


@pytest.mark.parametrize(
    ("scopes", "agent", "is_person"),
    [(["review"], None, True), (["admin"], None, True), (["tasks", "worker", "read"], None, False),
     (["review"], "planner", False), (["admin"], "planner", False)],
)  # fmt: skip
def test_a_person_has_a_scope_for_it_and_is_no_agent(
    world: World, scopes: list[str], agent: str | None, is_person: bool
) -> None:
    _, text = create_token(world, owner="alice", scopes=scopes, agent=agent)
    caller = recognise(world, text)

    assert caller.is_person == is_person
    if agent is not None:
        assert (caller.resolve_agent(None), caller.resolve_agent(agent)) == (agent, agent)
        with refused(Forbidden, "agent_of_token", agent=agent):
            caller.resolve_agent("other")
    if not is_person:
        with refused(Forbidden, "person_needed"):
            caller.require_person()


def test_code_of_an_application_is_no_person_until_it_names_one() -> None:
    assert [house(actor).is_person for actor in ("app/shop", "agent/planner", "system", "worker/w1", "anybody")] == [
        False
    ] * 5
    assert [house(actor).is_person for actor in ("user/carol", "cli/root", "token/6f1c")] == [True] * 3
