"""Values made by our ``dataclass`` behave as those of the standard library do, and cost less until they are used."""

import copy
import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from types import FunctionType
from typing import Any, ClassVar

import pytest

from horae.core.dataclass import LazyInit
from horae.core.dataclass import dataclass as ours

Make = Callable[..., Any]


def declare(dataclass: Make, **options: Any) -> Any:
    @dataclass(frozen=True, **options)
    class Point:
        """A point."""

        sides: ClassVar[int] = 2
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False)
        hidden: int = field(default=7, init=False, repr=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x is negative")

    return Point


OPTIONS: list[dict[str, bool]] = [{}, {"slots": True}, {"kw_only": True}, {"slots": True, "kw_only": True}]
WAYS = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options) or "plain")


@WAYS
def test_a_value_is_made_shown_and_compared_as_the_standard_library_does(options: dict[str, bool]) -> None:
    point, model = declare(ours, **options), declare(dataclasses.dataclass, **options)

    assert str(inspect.signature(point)) == str(inspect.signature(model))
    assert repr(point(x=1)) == repr(model(x=1))
    assert point(x=1, note="a") == point(x=1, note="b") != point(x=2)
    assert point(x=1) != model(x=1)
    assert dataclasses.asdict(point(x=1)) == dataclasses.asdict(model(x=1))
    assert [each.name for each in fields(point)] == [each.name for each in fields(model)]
    assert point.__match_args__ == model.__match_args__
    assert point.__dataclass_params__.frozen


@WAYS
def test_what_a_constructor_refuses_is_refused_alike(options: dict[str, bool]) -> None:
    point, model = declare(ours, **options), declare(dataclasses.dataclass, **options)

    for given in ({}, {"x": 1, "z": 2}, {"x": 1, "hidden": 3}):
        with pytest.raises(TypeError) as found:
            point(**given)
        with pytest.raises(TypeError) as expected:
            model(**given)
        assert str(found.value) == str(expected.value)
    with pytest.raises(ValueError, match="negative"):
        point(x=-1)


@WAYS
def test_a_value_cannot_be_changed_and_its_copies_are_equal(options: dict[str, bool]) -> None:
    value = declare(ours, **options)(x=1, tags=["a"])

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        value.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del value.x
    assert copy.copy(value) == copy.deepcopy(value) == replace(value) == value
    assert replace(value, x=3).x == 3
    assert copy.deepcopy(value).tags is not value.tags


def test_each_value_has_a_default_of_its_own() -> None:
    point = declare(ours)

    assert point(1).tags == []
    assert point(1).tags is not point(1).tags


def test_values_of_hashable_fields_are_found_in_sets() -> None:
    @ours(frozen=True, slots=True)
    class Name:
        text: str

    assert {Name("a"), Name("a"), Name("b")} == {Name("b"), Name("a")}


def test_the_methods_of_a_class_win() -> None:
    @ours(frozen=True)
    class Loud:
        text: str

        def __repr__(self) -> str:
            return self.text.upper()

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert (repr(Loud("a")), Loud("a") == 3, hash(Loud("a"))) == ("A", True, 5)


def test_a_frozen_class_may_follow_a_frozen_class_of_either_kind() -> None:
    base = declare(ours)

    @ours(frozen=True)
    class Near(base):  # type: ignore[misc, valid-type]
        z: int = 3

    @dataclasses.dataclass(frozen=True)
    class Far(base):  # type: ignore[misc, valid-type]
        z: int = 3

    assert (Near(1, z=4).z, Far(1).z) == (4, 3)
    assert Near(1) == Near(1) != Far(1)


def test_a_plain_class_after_a_value_may_have_attributes_of_its_own() -> None:
    class Further(declare(ours)):  # type: ignore[misc]
        pass

    made = Further(1)
    made.seen = True

    assert made.seen
    with pytest.raises(FrozenInstanceError):
        made.x = 2


def test_a_constructor_is_written_when_it_is_first_used() -> None:
    point = declare(ours)

    before = vars(point)["__init__"]
    point(1)
    after = vars(point)["__init__"]

    assert (type(before), type(after)) == (LazyInit, FunctionType)


def test_a_class_that_is_not_frozen_is_made_by_the_standard_library() -> None:
    @ours
    class Open:
        x: int

    made = Open(1)
    made.x = 2

    assert made == Open(2)
