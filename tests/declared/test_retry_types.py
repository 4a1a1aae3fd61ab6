"""Retry by the type of an exception: judged in the worker, from code, file and HTTP alike."""

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest

from horae import Horae, Retry
from horae.declare.file_values import read_retry
from horae.errors import InvalidInput
from horae.service.models import model_of, value_of
from horae.testing import Lab
from tests.support.refusals import refused


class Refused(ConnectionError):
    """An exception of an application."""


async def attempts(policy: Retry, error: BaseException, **options: Any) -> int:
    """Return how often a job is tried that fails in this way."""
    app = Horae("sqlite://")

    @app.job("call", retry=policy, **options)
    async def call() -> None:
        raise error

    async with Lab(app) as lab:
        job = call.enqueue()
        await lab.advance("1h")
        assert lab.state_of(job) == "dead"
        return len(lab.runs(job))


@pytest.mark.parametrize(
    ("policy", "error", "tries"),
    [
        (Retry.fixed(1, on=ConnectionError), Refused("no"), 3),
        (Retry.fixed(1, on=ConnectionError), KeyError("no"), 1),
        (Retry.fixed(1, never=[Refused]), Refused("no"), 1),
        (Retry.fixed(1, never=[Refused]), ConnectionError("no"), 3),
        (Retry.fixed(1, never="Refused"), Refused("no"), 1),
        (Retry.fixed(1, never=f"{__name__}.Refused"), Refused("no"), 1),
        (Retry.fixed(1, never="elsewhere.Refused"), Refused("no"), 3),
        (Retry.fixed(1, on=OSError), ExceptionGroup("two", [Refused("a"), TimeoutError("b")]), 3),
        (Retry.fixed(1, on=OSError), ExceptionGroup("two", [Refused("a"), KeyError("b")]), 1),
        (Retry.fixed(1, on=ExceptionGroup), ExceptionGroup("two", [Refused("a"), KeyError("b")]), 3),
    ],
)
async def test_the_type_of_an_exception_decides_whether_there_is_another_attempt(
    policy: Retry, error: BaseException, tries: int
) -> None:
    assert await attempts(policy, error) == tries


async def test_a_name_under_which_a_loaded_module_offers_a_class_is_that_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offering = ModuleType("offering")
    vars(offering)["Denied"] = Refused
    monkeypatch.setitem(sys.modules, "offering", offering)

    assert await attempts(Retry.fixed(1, never="offering.Denied"), Refused("no")) == 1
    assert await attempts(Retry.fixed(1, never="json.nothing.Denied"), Refused("no")) == 3


async def test_an_attempt_over_its_time_limit_counts_as_a_timeout_error() -> None:
    app = Horae("sqlite://")

    @app.job("sleepy", retry=Retry.fixed(0, attempts=3, never=TimeoutError), timeout="10ms")
    async def sleepy() -> None:
        await asyncio.Event().wait()

    async with Lab(app) as lab:
        job = sleepy.enqueue()
        await lab.settle()

        assert [run.outcome for run in lab.runs(job)] == ["timed_out"]
        assert lab.state_of(job) == "dead"


async def test_a_decision_function_is_not_asked_about_what_the_types_rule_out() -> None:
    asked: list[str] = []

    def decide(job: Any, error: str) -> float:
        asked.append(error)
        return 1.0

    policy = Retry.external(attempts=2, never=KeyError)
    assert await attempts(policy, KeyError("no"), decide=decide) == 1
    assert asked == []
    assert await attempts(policy, ValueError("no"), decide=decide) == 2
    assert len(asked) == 2


def test_the_file_names_exceptions_as_text() -> None:
    read = read_retry({"kind": "fixed", "delay": "5m", "on": "OSError", "never": ["app.Denied", "KeyError"]})

    assert read == Retry.fixed(300, on=OSError, never=["app.Denied", "KeyError"])
    with refused(InvalidInput, "file_value_not_a_list"):
        read_retry({"kind": "fixed", "on": 5})


def test_over_http_exceptions_are_named_as_text_and_spans_too() -> None:
    model = model_of(Retry, "Policy")
    sent = model.model_validate({"kind": "fixed", "delay": "5m", "never": ["KeyError"]})

    assert value_of(Retry, sent) == Retry.fixed(300, never=KeyError)
    with refused(InvalidInput, "retry_type_unreadable", option="on"):
        value_of(Retry, model.model_validate({"kind": "fixed", "on": ["no name"]}))
