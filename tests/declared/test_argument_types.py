"""Arguments are checked at the enqueue against the annotations of the handler; nothing is converted."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict
from uuid import UUID

import pytest

from horae import Context, Horae
from horae.declare.argument_types import check_for
from horae.errors import DefinitionError, InvalidArguments
from tests.support.refusals import refused

OrderId = NewType("OrderId", int)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


class Address(TypedDict):
    street: str


FITS: list[tuple[Any, list[Any]]] = [
    (int, [0, -1, Level.LOW]),
    (float, [1.5, 1]),
    (str, ["", "x"]),
    (bool, [True, False]),
    (None | int, [None, 3]),
    (Optional[str], [None, "x"]),  # noqa: UP045 - as older code writes it
    (Any, [object(), None]),
    (list[int], [[], [1, 2], (1, 2)]),
    (Sequence[str], [["a"]]),
    (tuple[int, str], [[1, "a"], (1, "a")]),
    (tuple[int, ...], [[1, 2, 3]]),
    (dict[str, int], [{}, {"a": 1}]),
    (Mapping[str, Any], [{"a": None}]),
    (Address, [{"street": "x"}]),
    (Literal["a", 1, None], ["a", 1, None]),
    (Colour, ["red"]),
    (Level, [1]),
    (Annotated[int, "many"], [1]),
    (OrderId, [1]),
    (datetime, ["2030-01-07T06:00:00Z", "2030-01-07T06:00:00"]),
    (date, ["2030-01-07"]),
    (int | list[int], [1, [1]]),
    (UUID, ["anything", 1]),
    (Decimal, ["1.5"]),
    (int | UUID, ["anything"]),
]
MISFITS: list[tuple[Any, Any, str, str]] = [
    (int, "5", "int", ""),
    (int, True, "int", ""),
    (int, 5.0, "int", ""),
    (int, None, "int", ""),
    (float, "1.5", "float", ""),
    (float, True, "float", ""),
    (str, 5, "str", ""),
    (str, None, "str", ""),
    (bool, 1, "bool", ""),
    (int | None, "5", "int or None", ""),
    (list[int], "12", "list", ""),
    (list[int], [1, "2"], "int", "[1]"),
    (list[list[int]], [[1], [2, None]], "int", "[1][1]"),
    (tuple[int, str], [1], "list of 2", ""),
    (tuple[int, str], [1, 2], "str", "[1]"),
    (dict[str, int], [1], "dict", ""),
    (dict[str, int], {"a": 1, "b": "c"}, "int", "['b']"),
    (Address, "street", "dict", ""),
    (Literal["a", 1], True, "one of 'a', 1", ""),
    (Colour, "green", "one of 'red', 'blue'", ""),
    (OrderId, "1", "int", ""),
    (datetime, "tomorrow", "an instant as text, such as 2030-01-07T06:00:00Z", ""),
    (date, 5, "a date as text, such as 2030-01-07", ""),
    (int | list[int], ["a"], "int", "[0]"),
]


@pytest.mark.parametrize(("hint", "value"), [(hint, value) for hint, values in FITS for value in values])
def test_what_fits_an_annotation_is_taken(hint: Any, value: Any) -> None:
    check = check_for(hint)

    assert check is None or check(value) is None


@pytest.mark.parametrize(("hint", "value", "expected", "path"), MISFITS)
def test_what_does_not_fit_says_where_and_what_was_expected(hint: Any, value: Any, expected: str, path: str) -> None:
    check = check_for(hint)

    assert check is not None
    misfit = check(value)
    assert misfit is not None
    assert (misfit.expected, misfit.path) == (expected, path)


@pytest.fixture
def app() -> Horae:
    return Horae("sqlite://")


def test_an_enqueue_names_the_argument_what_was_expected_and_what_was_given(app: Horae) -> None:
    @app.job("pay")
    def pay(amount: int, lines: list[str] | None = None, **more: float) -> None: ...

    pay.enqueue(5, ["a"], tax=1.5)
    for call, argument, expected, given in (
        ({"amount": "5"}, "amount", "int", "'5' (str)"),
        ({"amount": 5, "lines": ["a", 3]}, "lines[1]", "str", "3 (int)"),
        ({"amount": 5, "tax": "much"}, "tax", "float", "'much' (str)"),
    ):
        facts = {"handler": "pay", "argument": argument, "expected": expected, "given": given}
        with refused(InvalidArguments, "argument_type_wrong", **facts):
            app.enqueue("pay", **call)
    with refused(InvalidArguments, "argument_type_wrong", argument="amount", expected="int"):
        pay.enqueue_many([{"amount": 5}, {"amount": None}])
    assert len(list(app.jobs.list())) == 1


def test_a_sensitive_value_is_not_repeated_in_the_refusal(app: Horae) -> None:
    @app.job("log-in", sensitive=["code"])
    def log_in(code: int, password: bytes | int = 0) -> None: ...

    with refused(InvalidArguments, "argument_type_wrong", argument="code", given="str") as caught:
        app.enqueue("log-in", code="1234")
    assert "1234" not in str(caught.value)


def test_a_declaration_can_take_arguments_as_they_are(app: Horae) -> None:
    @app.job("pay", check_types=False)
    def pay(amount: int) -> None: ...

    assert app.enqueue("pay", amount="5").id == "job_1"
    with refused(DefinitionError, "check_types_not_boolean", value="'no'"):
        app.job("other", check_types="no")(lambda: None)  # type: ignore[arg-type]


def test_annotations_of_a_class_and_of_scheduled_arguments_count_too(app: Horae) -> None:
    @app.job("clean")
    class Clean:
        def run(self, ctx: Context, limit: int) -> None: ...

    with refused(InvalidArguments, "argument_type_wrong", argument="limit", expected="int"):
        app.enqueue("clean", limit="5")
    with refused(DefinitionError, "scheduled_arguments_missing"):

        @app.job("nightly", cron="0 3 * * *", arguments={"limit": "5"})
        def nightly(limit: int) -> None: ...


def test_annotations_that_cannot_be_read_are_not_checked(app: Horae) -> None:
    @app.job("odd")
    def odd(thing: "Unknown") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert app.enqueue("odd", thing=object.__name__).id == "job_1"
