"""Workers of the house and tenants' jobs: they run what is declared open to tenants, and nothing else, ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from horae import Horae, Retry
from horae.actions.jobs import claims
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.definitions import find_definitions
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.jobs.job import OPEN_HANDLERS, Job
from horae.core.jobs.machinery import DEADLINE, START, TIMEOUT
from horae.declare.attend import register as register_attention
from horae.outgoing import register as register_outgoing
from horae.testing import Lab
from tests.runtime.serving import ended, serving
from tests.support.waiting import eventually

AppOn = Callable[[str], Horae]


def shop(app: Horae, ran: list[str], *, report: bool = True) -> Horae:
    """An application with a handler that tenants may run, and one that they must not."""
    app.job("report", tenants=report, retry=Retry.none())(lambda: ran.append("report"))
    app.job("wipe-customer")(lambda: ran.append("wipe"))
    return app


def asked(app: Horae, handler: str, owner: str = "alice") -> Enqueued:
    return verbs.enqueue(app.world, Request(handler, owner=owner, retry=Retry.none()))


async def held(app: Horae, enqueued: Enqueued) -> Job:
    job: Job = await eventually(lambda: job if (job := app.get(enqueued.id)).held else None, f"hold of {enqueued.id}")
    return job


async def test_what_a_tenant_asked_for_during_a_restart_is_not_run_by_the_worker_that_starts(
    database_url: str, app_on: AppOn
) -> None:
    """No worker was alive to refuse it. What is stored at start decides."""
    ran: list[str] = []
    app = shop(app_on(database_url), ran)
    wipe, report = asked(app, "wipe-customer"), asked(app, "report")

    async with serving(app):
        await ended(app, report)
        job = await held(app, wipe)

    stored = verbs.get(app.world, job.id)
    assert (job.state, job.held, stored.held_for) == ("queued", "closed", "wipe-customer")
    assert ran == ["report"]
    assert {each.name: each.tenants for each in find_definitions(app.world)} == {"report": True, "wipe-customer": False}


async def test_a_handler_that_the_next_version_opens_runs_what_was_held_for_it(
    database_url: str, app_on: AppOn
) -> None:
    ran: list[str] = []
    old, new = shop(app_on(database_url), ran, report=False), shop(app_on(database_url), ran)
    job = asked(old, "report")
    async with serving(old):
        await held(old, job)

    async with serving(new):
        await ended(new, job)

    assert ran == ["report"]


async def test_of_two_versions_at_work_only_the_one_that_opens_a_handler_runs_it_for_tenants(
    database_url: str, app_on: AppOn
) -> None:
    """A rolling deploy. The newest stored definition rules; code that says "closed" is never run for a tenant."""
    ran: list[str] = []
    old, new = shop(app_on(database_url), [], report=False), shop(app_on(database_url), ran)
    async with serving(old) as before:
        await eventually(lambda: before.declared.in_line, "the old worker's start")
        new.declare_schedules()  # the new version has started elsewhere
        job = asked(old, "report")
        await eventually(lambda: verbs.runs(old.world, job.id), "the old worker's look at it")

    (run,) = verbs.runs(old.world, job.id)
    assert (run.outcome, "does not open 'report' to tenants" in (run.error or "")) == ("snoozed", True)
    verbs.reschedule(new.world, job.id, run_at=new.world.clock.now())
    async with serving(new):
        done = await ended(new, job)
    assert (done.state, done.attempt, ran) == ("succeeded", 0, ["report"])


async def test_the_house_runs_its_own_jobs_whether_a_handler_is_open_or_not(app: Horae) -> None:
    ran: list[str] = []
    shop(app, ran)
    async with serving(app):
        await ended(app, asked(app, "wipe-customer", "system"))
    assert ran == ["wipe"]


async def test_a_tenant_reads_what_went_wrong_and_not_where_in_our_code(
    app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    """In the job, its run and the audit alike; the operator finds the lines in the worker's log."""

    def broken() -> None:
        try:
            raise KeyError("inner")
        except KeyError as problem:
            raise ExceptionGroup("many", [ValueError("one"), problem]) from problem

    def plain() -> None:
        raise ValueError("the report is empty\n\nreally")

    for name, function in (("broken", broken), ("plain", plain)):
        app.job(name, tenants=True, retry=Retry.none())(function)
    jobs = [asked(app, "broken"), asked(app, "plain"), asked(app, "plain", "system")]
    async with serving(app):
        first, second, ours = [await ended(app, job) for job in jobs]

    assert first.last_error == "ExceptionGroup: many (2 sub-exceptions)"
    assert second.last_error == "ValueError: the report is empty\n\nreally"
    assert "test_tenants.py" in (ours.last_error or "")
    answer = [run.error for job in jobs[:2] for run in verbs.runs(app.world, job.id)]
    answer += [
        entry.reason
        for _, entry in app.world.store.read(
            lambda tx: tx.audit.find(object_id=None, limit=9, before=None, owner="alice")
        )
    ]
    assert len(answer) == 4
    assert not [text for text in answer if "Traceback" in (text or "") or "test_tenants" in (text or "")]
    assert caplog.text.count("raise ValueError") == 2  # once for each job that raised it


async def test_the_lab_keeps_tenants_out_as_a_worker_does(app: Horae) -> None:
    ran: list[str] = []
    shop(app, ran)
    async with Lab(app) as lab:
        wipe, report = asked(app, "wipe-customer"), asked(app, "report")
        await lab.settle()
        assert [lab.state_of(report), lab.state_of(wipe), lab.job(wipe).held] == ["succeeded", "queued", "closed"]


def test_our_own_handlers_say_that_they_are_open(app: Horae) -> None:
    register_attention(app)
    register_outgoing(app)

    machinery = {TIMEOUT, START, DEADLINE}  # served by every worker, and declared by none
    served_elsewhere = {"govern"}  # by workers over HTTP, and by the keeper
    named = {each.name for each in app.definitions if each.tenants} | machinery | served_elsewhere
    assert named == set(OPEN_HANDLERS)


def test_an_application_that_has_a_handler_of_one_of_our_names_decides_for_itself(app: Horae) -> None:
    app.job("webhook")(lambda url: url)
    register_outgoing(app)
    app.declare_schedules()

    assert {each.name: each.tenants for each in find_definitions(app.world)} == {"webhook": False, "dispatch": True}
    asked(app, "webhook")
    assert claims.pull(app.world, worker_id="w") == []
