"""Many jobs at once through a handle: the answers, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from horae import Horae
from horae.actions.jobs import jobs as verbs
from horae.errors import HoraeError, InvalidArguments, InvalidPayload
from horae.stores.schema import migrate


@pytest.fixture
def app(database_url: str) -> Iterator[Horae]:
    app = Horae(database_url)
    migrate(app.engine)
    yield app
    app.close()


def declare(app: Horae) -> Any:
    @app.job("mail", queue="mail", tenants=True)
    async def mail(to: str, note: Any = None) -> None: ...

    return mail


def test_each_answer_is_the_job_that_is_stored(app: Horae) -> None:
    mail = declare(app).using(tags=["a"], priority="high", timeout=5, trace_id="t", owner="ann")

    answers = mail.enqueue_many({"to": f"{place}"} for place in range(3))

    assert [each.job.payload for each in answers] == [{"to": "0"}, {"to": "1"}, {"to": "2"}]
    assert [each.number for each in answers] == sorted(each.number for each in answers)
    for each in answers:
        stored = app.get(each.id)
        assert (each.state, each.deduplicated, each.late, each.run_at) == ("queued", False, False, stored.run_at)
        assert (stored.payload, stored.tags, stored.owner, stored.queue) == (each.job.payload, ("a",), "ann", "mail")


def test_arguments_are_read_when_they_come(app: Horae) -> None:
    """A caller may yield one mapping again and again with other values in it."""

    def calls() -> Iterator[dict[str, str]]:
        call: dict[str, str] = {}
        for name in ("ann", "bob"):
            call["to"] = name
            yield call

    assert [each.job.payload for each in declare(app).enqueue_many(calls())] == [{"to": "ann"}, {"to": "bob"}]


def test_nothing_is_enqueued_for_no_calls(app: Horae) -> None:
    assert declare(app).enqueue_many([]) == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ({}, InvalidArguments),
        ({"whom": 1}, InvalidArguments),
        ({"to": 1}, InvalidArguments),
        ({"to": "cy", "note": float("nan")}, InvalidPayload),
    ],
)
def test_one_refused_call_stores_none(app: Horae, call: dict[str, Any], problem: type[HoraeError]) -> None:
    with pytest.raises(problem):
        declare(app).enqueue_many([{"to": "ann"}, {"to": "bob"}, call])

    assert verbs.find(app.world) == []


def test_a_key_is_one_job_however_often_it_is_asked_for(app: Horae) -> None:
    answers = declare(app).using(key="k").enqueue_many([{"to": "ann"}] * 3)

    assert [each.deduplicated for each in answers] == [False, True, True]
    assert len({each.number for each in answers}) == 1
