"""What cannot work is refused in words, and at every door of the library alike."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from horae import Horae, Retry
from horae.actions.jobs.jobs import enqueue
from horae.actions.jobs.requests import Request
from horae.actions.schedules import fires, schedules
from horae.errors import DefinitionError, InvalidInput
from horae.runtime.worker.worker import WorkerSettings
from horae.testing.builders import a_schedule


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Horae]:
    (tmp_path / "jobs.conf").touch()
    with Horae("sqlite://", name="test", config=tmp_path / "jobs.conf") as app:
        app.job("work")(lambda value=None: None)
        schedules.create(app.world, a_schedule("known", handler="work"))
        yield app


def using(app: Horae, **options: Any) -> Any:
    from horae.declare.handles import JobHandle

    return JobHandle[Any, Any](app, app.definitions.get("work")).using(**options)


Door = Callable[[Horae], Any]
COLLIDING = {"value": {1: 2, "1": 3}}
DOORS: dict[str, Door] = {
    "queue when declared": lambda app: app.job("other", queue="")(lambda: None),
    "queue of one job": lambda app: using(app, queue=""),
    "queue of a request": lambda app: enqueue(app.world, Request("work", queue="")),
    "queue of a schedule": lambda app: schedules.create(app.world, a_schedule("new", handler="work", queue="")),
    "queue of a changed schedule": lambda app: schedules.change(app.world, "known", {"queue": ""}),
    "queue of a rate": lambda app: app.limit_rate("", object()),  # type: ignore[arg-type]
    "queue of a worker": lambda app: app.worker(WorkerSettings(queues={"": 5})),
    "timeout when declared": lambda app: app.job("other", timeout=0)(lambda: None),
    "long timeout when declared": lambda app: app.job("other", timeout=timedelta.max)(lambda: None),
    "silence when declared": lambda app: app.job("other", stale_timeout=0)(lambda: None),
    "timeout of one job": lambda app: using(app, timeout=0),
    "long timeout of one job": lambda app: using(app, timeout=timedelta.max),
    "timeout of a request": lambda app: enqueue(app.world, Request("work", timeout=timedelta(0))),
    "long timeout of a request": lambda app: enqueue(app.world, Request("work", timeout=timedelta.max)),
    "timeout of a schedule": lambda app: schedules.create(app.world, a_schedule("new", timeout=timedelta(0))),
    "timeout of a changed schedule": lambda app: schedules.change(app.world, "known", {"timeout": timedelta(0)}),
    "priority of one job": lambda app: using(app, priority=""),
    "retry of one job": lambda app: using(app, retry=5),
    "retry of a request": lambda app: enqueue(app.world, Request("work", retry=5)),  # type: ignore[arg-type]
    "retry when declared": lambda app: app.job("other", retry=5)(lambda: None),  # type: ignore[arg-type]
    "attempts": lambda app: Retry.exponential(1, attempts=10**12),
    "keys of arguments": lambda app: using(app).enqueue(**COLLIDING),
    "keys of a payload": lambda app: enqueue(app.world, Request("work", {1: 2, "1": 3})),
    "keys of a checkpoint": lambda app: enqueue(app.world, Request("work", checkpoint={1: 2})),
    "keys of a schedule": lambda app: schedules.create(app.world, a_schedule("new", payload=COLLIDING)),
    "keys of a changed schedule": lambda app: schedules.change(app.world, "known", {"payload": COLLIDING}),
    "keys of a trigger": lambda app: fires.trigger(app.world, "known", COLLIDING),
    "keys of declared arguments": lambda app: app.job("other", every=5, arguments=COLLIDING)(lambda value: None),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_cannot_work_is_refused_at_every_door(app: Horae, door: str) -> None:
    with pytest.raises((InvalidInput, DefinitionError)) as refused:
        DOORS[door](app)

    assert type(refused.value).__module__ == "horae.errors"
    assert len(str(refused.value)) > 30


@pytest.mark.parametrize("item", ["timeout = 0", 'timeout = "0s"', "queue = 'other'", "timeout = 1e300"])
def test_the_file_refuses_the_same(app: Horae, tmp_path: Path, item: str) -> None:
    app.job("clean", cron="0 3 * * *")(lambda: None)
    (tmp_path / "jobs.conf").write_text(f'[[jobs.items]]\nid = "clean"\n{item}\n')

    with pytest.raises((InvalidInput, DefinitionError, ValueError)):
        app.plan()


def test_options_that_were_given_are_not_replaced_by_those_of_the_definition(app: Horae) -> None:
    made = using(app, queue="mail", timeout=0.5, priority="low", retry=Retry.none()).request()

    assert (made.queue, made.timeout, made.priority, made.retry) == (
        "mail", timedelta(seconds=0.5), "low", Retry.none(),
    )  # fmt: skip
