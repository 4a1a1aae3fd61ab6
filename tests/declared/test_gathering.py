"""Jobs that are declared as debounced or collecting, and `using`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from horae import Collect, Debounce, Horae
from horae.errors import DefinitionError, InvalidArguments, InvalidInput
from horae.testing.sync_lab import SyncLab
from tests.support.refusals import refused

ran: list[object] = []
app = Horae("sqlite:///:memory:")


@app.job("index", debounce=Debounce("30s", max_wait="5m", key="{document}"))
def index(document: str, version: int) -> None:
    ran.append((document, version))


@app.job("greet", collect=Collect(n=3, within="5s"))
def greet(names: list[str]) -> None:
    ran.append(names)


@app.job("plain")
def plain(ids: list[int]) -> None:
    ran.append(ids)


@pytest.fixture
def lab() -> Iterator[SyncLab]:
    ran.clear()
    with SyncLab(app) as lab:
        yield lab


def test_a_declared_debounce_tells_calls_apart_by_their_arguments(lab: SyncLab) -> None:
    for version in (1, 2):
        for document in ("a", "b"):
            index.enqueue(document, version=version)
    lab.advance("30s")

    assert sorted(ran, key=str) == [("a", 2), ("b", 2)]


def test_a_declared_collection_runs_once_for_many_calls(lab: SyncLab) -> None:
    made = [greet.enqueue([name]) for name in ("ann", "ben")]
    greet.enqueue_many([{"names": ["cem"]}, {"names": ["dora"]}])
    lab.advance("5s")

    assert made[0].id == made[1].id
    assert ran == [["ann", "ben", "cem"], ["dora"]]


def test_using_debounces_and_collects_what_is_not_declared_so(lab: SyncLab) -> None:
    for number in (1, 2):
        plain.using(debounce="10s").enqueue([number])
        plain.using(collect=Collect(key="{literal}", within=timedelta(seconds=3))).enqueue([number])
    lab.advance("10s")

    assert ran == [[1, 2], [2]]


def test_using_replaces_what_was_declared(lab: SyncLab) -> None:
    for version in (1, 2):
        index.using(debounce=Debounce("1s", key=f"v{version}")).enqueue("a", version)
    lab.advance("1s")

    assert ran == [("a", 1), ("a", 2)]


def test_arguments_are_checked_as_ever(lab: SyncLab) -> None:
    with pytest.raises(InvalidArguments):
        greet.enqueue([1])  # type: ignore[list-item]
    with pytest.raises(InvalidInput):
        greet.enqueue([])


@pytest.mark.parametrize(
    "options",
    [
        {"debounce": "never"},
        {"debounce": Debounce(5), "collect": Collect()},
        {"collect": 5},
        {"debounce": "5s", "exclusive": True},
    ],
)
def test_a_declaration_that_cannot_work_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(DefinitionError):
        Horae("sqlite:///:memory:").job("wrong", **options)(lambda: None)  # type: ignore[arg-type]


def test_a_key_that_names_no_argument_is_refused_at_the_call(lab: SyncLab) -> None:
    other = Horae("sqlite:///:memory:")
    handle = other.job("wrong", debounce=Debounce(5, key="{nothing}"))(plain)
    with refused(InvalidArguments, "gather_key_missing", key="{nothing}", argument="'nothing'"):
        handle.enqueue([1])


@pytest.mark.parametrize(("wait", "max_wait"), [(0, None), (-1, None), ("31d", None), ("5m", "1m")])
def test_spans_that_make_no_sense_are_refused(wait: object, max_wait: object) -> None:
    with pytest.raises(InvalidInput):
        Debounce(wait, max_wait)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        Collect(n=0)
