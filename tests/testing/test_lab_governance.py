"""A forecast of a governed object equals the same days lived through in the Lab."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import pytest

import horae
from horae.api.governance.object_values import ForecastStep
from horae.core.governance.forecast import Assume
from horae.core.governance.machines import KINDS, Kind
from horae.testing import Lab

pytestmark = pytest.mark.slow
YEAR = timedelta(days=365)
GROUND = "mem_ground"
JOB_VERBS = {"admitted", "evidence", "put_back"}


def an_app(kind: Kind, assume: Assume) -> horae.Horae:
    """Return an application whose verifier of a kind always finds the same; with ``none`` the built-in one judges.

    What objects of that kind rest on is always confirmed: nothing new arrives.
    """
    app = horae.Horae()
    if kind != "memory":
        app.verifier("memory")(_holds)
    if assume != "none":
        verdict = horae.Verdict(assume, survived=assume == "confirmed")
        app.verifier(kind)(lambda it: verdict)
    return app


def _holds(it: horae.ObjectToVerify) -> horae.Verdict:
    return horae.Verdict.confirmed()


async def propose(app: horae.Horae, lab: Lab, kind: Kind, **fields: Any) -> str:
    """Propose an object of this kind; what it rests on is verified first."""
    rests_on: list[str] = []
    if kind != "memory":
        app.objects.propose("memory", "Ann asked for tea twice", id=GROUND, category="procedural")
        await lab.settle()
        rests_on = [f"memory:{GROUND}"]
    made = app.objects.propose(kind, f"Ann likes tea ({kind})", subject="Ann", rests_on=rests_on, **fields)
    return made.id


async def lived(app: horae.Horae, lab: Lab, object_id: str, until: timedelta) -> list[tuple[Any, ...]]:
    """Live the days through, and return what the entries say about each action: its end, edges and state."""
    first = {each.id for each in app.objects.history(object_id)}
    await lab.advance(until)
    steps: dict[Any, tuple[Any, ...]] = {}
    for each in reversed(list(app.objects.history(object_id))):
        if each.id in first or each.verb in JOB_VERBS or each.job is None:
            continue
        _, _, events, _ = steps.get(each.job, (None, None, (), None))
        if each.event_kind == "state_transition":
            events = (*events, each.verb)
        state = "/".join(filter(None, (each.after["status"], each.after.get("epistemic_state"))))
        steps[each.job] = (each.at, each.after["action"], events, state)
    return list(steps.values())


def told(steps: tuple[ForecastStep, ...]) -> list[tuple[Any, ...]]:
    return [
        (each.at, each.action, each.events, "/".join(filter(None, (each.status, each.epistemic_state))))
        for each in steps
    ]


@pytest.mark.parametrize("risk", ["low", "high"])
@pytest.mark.parametrize("assume", get_args(Assume))
@pytest.mark.parametrize("kind", KINDS)
async def test_a_year_of_a_new_object_is_forecast_as_it_is_lived(kind: Kind, assume: Assume, risk: Any) -> None:
    app = an_app(kind, assume)
    async with Lab(app) as lab:
        object_id = await propose(app, lab, kind, risk=risk, evidence=["chat:1"])
        expected = told(app.objects.forecast(object_id, until=lab.now + YEAR, assume=assume))

        assert await lived(app, lab, object_id, YEAR) == expected
        assert expected


@pytest.mark.parametrize("assume", get_args(Assume))
@pytest.mark.parametrize("kind", KINDS)
async def test_from_the_middle_of_its_life_on_it_is_forecast_as_it_is_lived(kind: Kind, assume: Assume) -> None:
    app = an_app(kind, assume)
    async with Lab(app) as lab:
        object_id = await propose(app, lab, kind, risk="low", expires_at=lab.now + timedelta(days=60))
        await lab.advance(timedelta(days=10))
        app.objects.evidence(object_id, ["chat:2"])
        await lab.advance(timedelta(days=9))
        expected = told(app.objects.forecast(object_id, until=lab.now + YEAR, assume=assume))

        assert await lived(app, lab, object_id, YEAR) == expected


async def test_what_nobody_confirms_is_forecast_into_the_archive_and_nothing_is_written() -> None:
    app = an_app("memory", "none")
    async with Lab(app) as lab:
        object_id = await propose(app, lab, "memory", evidence=["chat:1"])
        app.objects.conclude(object_id, "confirmed", reason="seen")
        before = app.objects.get(object_id)

        steps = app.objects.forecast(object_id, until=lab.now + YEAR, assume="none")

        assert steps[0].events == ("doubted",)
        assert steps[0].at - lab.now == timedelta(days=14)
        assert "archived" in {each.status for each in steps}
        assert app.objects.get(object_id) == before
