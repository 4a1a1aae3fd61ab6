"""Hand-written requests that do not fit: each is refused with a reason and facts, as in the library."""

from typing import Annotated, Any

import pytest
from fastapi.testclient import TestClient
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from horae.service.inputs import check_one_line
from horae.service.validation import misfit

WRONG: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({}, "input_missing", {"where": "body.handler"}),
    ({"handler": 7}, "input_not_text", {"where": "body.handler"}),
    ({"handler": "w", "concurrency_limit": "7"}, "input_not_whole", {"where": "body.concurrency_limit"}),
    ({"handler": "w", "delay": [5]}, "input_not_number", {"where": "body.delay"}),
    ({"handler": "w", "tags": 7}, "input_not_list", {"where": "body.tags"}),
    ({"handler": "w", "payload_": {}}, "input_unknown", {"where": "body.payload_"}),
    ({"handler": "w", "run_at": "2030-01-07T06:00"}, "offset_missing", {"text": "2030-01-07T06:00"}),
    ({"handler": "w", "run_at": {"year": 2030}}, "instant_unreadable", {"text": "{'year': 2030}"}),
]
FOUND: list[tuple[Any, Any, str]] = [
    (bool, 7, "input_not_boolean"),
    (dict[str, int], 7, "input_not_object"),
    (tuple[int, ...], "x", "input_not_list"),
    (float, "x", "input_not_number"),
    (Annotated[float, Field(allow_inf_nan=False)], float("inf"), "input_not_number"),
    (Annotated[str, Field(max_length=2)], "abc", "input_too_long"),
    (Annotated[str, Field(min_length=2)], "a", "input_too_short"),
    (Annotated[list[int], Field(max_length=1)], [1, 2], "input_too_many"),
    (Annotated[list[int], Field(min_length=1)], [], "input_too_few"),
    (Annotated[int, Field(ge=1)], 0, "input_too_small"),
    (Annotated[int, Field(le=1)], 2, "input_too_large"),
    (Annotated[int, Field(gt=1)], 1, "input_not_above"),
    (Annotated[int, Field(lt=1)], 1, "input_not_below"),
    (Annotated[str, Field(pattern="^a$")], "b", "input_not_in_form"),
    (Annotated[str, AfterValidator(check_one_line)], "a\nb", "input_not_one_line"),
    (bytes, 7, "input_refused"),
]


@pytest.mark.parametrize(("body", "reason", "facts"), WRONG, ids=str)
def test_a_value_that_does_not_fit_is_refused_with_a_reason_and_facts(
    body: dict[str, Any], reason: str, facts: dict[str, Any], alice: TestClient
) -> None:
    answer = alice.post("/jobs", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["reason"]) == (422, "invalid_input", reason)
    assert {name: problem["facts"].get(name) for name in facts} == facts
    assert (problem["errors"][0]["reason"], problem["errors"][0]["facts"]) == (reason, problem["facts"])
    assert problem["detail"].startswith("body.")


def test_a_body_that_is_no_json_is_refused_with_its_position(alice: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    problem = alice.post("/jobs", content=b'{"handler": "x"', headers=headers).json()
    assert (problem["reason"], problem["facts"]["position"]) == ("input_not_json", 15)


def test_the_sentence_is_in_the_language_of_the_request(alice: TestClient) -> None:
    problem = alice.post("/jobs", json={"handler": 7}, headers={"Accept-Language": "zh-CN"}).json()
    assert problem["detail"] == problem["errors"][0]["message"] == "body.handler 必须是文本。"


@pytest.mark.parametrize(("kind", "value", "reason"), FOUND, ids=[reason for *_, reason in FOUND])
def test_what_pydantic_finds_becomes_a_reason(kind: Any, value: Any, reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value, strict=True)
    found = misfit({**caught.value.errors()[0], "loc": ("body", "field")})
    assert (found.error.reason, found.error.facts["where"]) == (reason, "body.field")


def test_a_token_in_a_wrong_place_is_not_repeated(alice: TestClient) -> None:
    token = str(alice.headers["Authorization"]).removeprefix("Bearer ")
    answer = alice.post("/jobs", json={"handler": "w", "run_at": token})
    assert answer.status_code == 422
    assert token[-40:] not in answer.text


@pytest.mark.parametrize("end", [None, -3, -30])
def test_a_token_in_the_place_of_a_name_is_not_repeated(end: int | None, alice: TestClient) -> None:
    token = str(alice.headers["Authorization"]).removeprefix("Bearer ")
    secret = token.rpartition("_")[2][:8]
    sent = token[:end]
    answers = [
        alice.post("/jobs", json={"handler": "w", sent: 1}),
        alice.post("/jobs", json={"handler": "w", "delay": sent}),
        alice.post("/jobs", json={"handler": "w", "run_at": sent}),
        alice.get(f"/scheduler/jobs/{sent}"),
    ]
    assert [answer.status_code for answer in answers] == [422] * 4
    assert not [answer.text for answer in answers if secret in answer.text]


def test_an_id_of_any_length_is_not_repeated_whole(alice: TestClient) -> None:
    assert len(alice.get("/scheduler/jobs/job_" + "9" * 30_000).content) < 1000


@pytest.mark.filterwarnings("error")
def test_a_value_that_the_operation_refuses_leaves_no_warning(operator: TestClient) -> None:
    """Each such request wrote lines of the validation library into the log of the service."""
    answer = operator.post("/tokens", json={"owner": "alice", "scopes": ["tasks"], "queues": [0] * 101})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
