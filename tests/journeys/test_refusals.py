"""What cannot be stored is refused at the door, in words, with nothing left behind; through the public interface."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horae import Horae, HoraeError
from horae.actions.jobs import jobs as verbs
from horae.errors import InvalidArguments, InvalidInput, InvalidName, InvalidPayload, PastDue
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from tests.support.refusals import refused


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def many_refusals() -> list[tuple[str, type[HoraeError], str, Any]]:
    """A name, the error, a word of its message, and the argument."""
    return [
        ("NUL", InvalidPayload, "NUL", "a\x00b"),
        ("NUL in a key", InvalidPayload, "NUL", {"a\x00": 1}),
        ("lone surrogate", InvalidPayload, "surrogate", "\ud800"),
        ("lone surrogate in a key", InvalidPayload, "surrogate", {"\udfff": 1}),
        ("NaN", InvalidPayload, "not plain JSON", float("nan")),
        ("infinity", InvalidPayload, "not plain JSON", [float("-inf")]),
        ("a million levels", InvalidPayload, "nested", deep(10**6)),
        ("101 levels", InvalidPayload, "nested", deep(101)),
        ("over a mebibyte", InvalidPayload, "1,048,576", "x" * 2**20),
        ("over a mebibyte in UTF-8", InvalidPayload, "1,048,576", "汉" * 400_000),
        ("an object", InvalidPayload, "not plain JSON", object()),
        ("bytes", InvalidPayload, "not plain JSON", b"bytes"),
    ]


def test_hostile_input_is_refused_by_type_and_nothing_is_stored(database_url: str) -> None:
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    with Horae(database_url) as app:

        @app.job("take")
        def take(value: Any = None) -> None:
            return None

        for name, kind, word, value in many_refusals():
            with pytest.raises(kind, match=word) as caught:
                take.enqueue(value)
            assert isinstance(caught.value, ValueError), name
            assert len(str(caught.value)) < 500, name
        now = datetime.now(UTC)
        with refused(PastDue, "run_at_passed"):
            take.using(run_at=now - timedelta(seconds=30), strict=True).enqueue()
        with refused(InvalidInput, "zone_missing", name="run_at"):
            take.using(run_at=datetime(2030, 1, 1)).enqueue()  # noqa: DTZ001 - naive on purpose
        with refused(InvalidInput, "run_at_and_delay"):
            take.using(run_at=now, delay=1).enqueue()
        with refused(InvalidArguments, "arguments_unfit", handler="take"):
            take.enqueue(valeu=1)
        for options in ({"key": "a\x00"}, {"key": "\ud800"}, {"queue": "a b"}, {"tags": ["\n"]}, {"unique": ""}):
            with pytest.raises(InvalidName):
                take.using(**options).enqueue()
        with pytest.raises(InvalidPayload):
            take.enqueue_many([{"value": 1}, {"value": float("nan")}])  # all or nothing

        assert verbs.find(app.world) == []
        assert verbs.counts(app.world) == {}


def test_what_is_just_inside_the_limits_comes_back_as_it_was(database_url: str) -> None:
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    values = ["a\\u0000b", "\U0001f989 汉 é e\u0301 \u202e", deep(97), "x" * (2**20 - 20), 2**63, 1e308, {"": None}]
    with Horae(database_url) as app:
        take = app.job("take")(lambda value: None)
        late = take.using(run_at=datetime.now(UTC) - timedelta(seconds=3), strict=True).enqueue(value=0)

        stored = [take.enqueue(value=value) for value in values]

        assert [app.get(job.id).payload["value"] for job in stored] == values
        assert late.late
