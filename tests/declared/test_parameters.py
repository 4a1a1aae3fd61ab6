"""What a form can ask for, from a handler's signature."""

import inspect
from collections.abc import Callable
from datetime import date, datetime
from enum import Enum
from typing import Any, Literal

import pytest

from horae import Context, Horae
from horae.core.jobs.parameters import LONGEST_DEFAULT, Parameter, parameter_from, parameter_json
from horae.declare.parameters import description_of, parameters_of
from horae.errors import DefinitionError, InvalidInput


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def paint(  # type: ignore[no-untyped-def]
    what: str,
    times: int,
    size: float = 1.5,
    wet: bool = False,
    on: date | None = None,
    at: datetime | None = None,
    colour: Literal["red", "blue"] = "red",
    edge: Colour = Colour.BLUE,
    names: list[str] | None = None,
    free=3,
    api_key: str = "abc",
    **more: Any,
) -> None:
    """Paint something,
    and say so.

    More about it.
    """


def of(function: Callable[..., Any], *sensitive: str) -> dict[str, Parameter]:
    return {each.name: each for each in parameters_of(function, inspect.signature(function), sensitive)}


def test_each_type_has_its_kind() -> None:
    found = of(paint)

    assert {name: each.kind for name, each in found.items()} == {
        "what": "text", "times": "integer", "size": "number", "wet": "boolean", "on": "date", "at": "instant",
        "colour": "choice", "edge": "choice", "names": "json", "free": "integer", "api_key": "text", "more": "extra",
    }  # fmt: skip
    assert [name for name, each in found.items() if each.required] == ["what", "times"]
    assert (found["colour"].choices, found["colour"].default) == (("red", "blue"), "red")
    assert (found["edge"].choices, found["edge"].default) == (("red", "blue"), "blue")
    assert [name for name, each in found.items() if each.nullable] == ["on", "at", "names"]


def test_a_sensitive_parameter_tells_no_default() -> None:
    found = of(paint, "what")

    assert (found["api_key"].sensitive, found["api_key"].default) == (True, None)
    assert found["what"].sensitive


def test_a_description_is_the_first_paragraph_on_one_line() -> None:
    assert description_of(paint) == "Paint something, and say so."
    assert description_of(lambda: None) is None


def test_a_parameter_survives_being_stored() -> None:
    for each in of(paint).values():
        assert parameter_from(parameter_json(each)) == each


@pytest.mark.parametrize(
    "raw",
    [{}, {"name": ""}, {"name": "a", "kind": "colour"}, {"name": "a", "choices": [{}]}, {"name": "a", "choices": "ab"},
     {"name": "a", "default": "x" * LONGEST_DEFAULT}],
)  # fmt: skip
def test_a_parameter_that_no_form_can_show_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        parameter_from(raw)


@pytest.mark.parametrize("wrong", ["password", [1], [""]])
def test_sensitive_takes_names(wrong: Any) -> None:
    with Horae("sqlite://") as app, pytest.raises(DefinitionError):
        app.job("a", sensitive=wrong)(lambda: None)


def test_the_plan_of_an_application_says_what_its_handlers_take() -> None:
    with Horae("sqlite://") as app:

        @app.job("pay", sensitive=["iban"])
        def pay(ctx: Context, iban: str, amount: int = 1) -> None:
            """Pay somebody."""

        (stored,) = app.plan().definitions

    assert (stored.sensitive, stored.description) == (("iban",), "Pay somebody.")
    assert [(each.name, each.kind, each.sensitive) for each in stored.parameters or ()] == [
        ("iban", "text", True),
        ("amount", "integer", False),
    ]
