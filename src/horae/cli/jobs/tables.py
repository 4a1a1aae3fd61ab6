"""Jobs as people read them in a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from horae.cli import words
from horae.words.languages import Language

if TYPE_CHECKING:
    from horae.api.acts import Act
    from horae.api.jobs.room import Job, Reason, Run
    from horae.cli.terminal import Terminal


def job_table(terminal: Terminal, jobs: Sequence[Job], now: datetime) -> str:
    headers = ("ID", "STATE", "HANDLER", "QUEUE", "ATTEMPTS", "WHEN", "UTC", "ERROR")
    return terminal.table(headers, [_job_row(job, now) for job in jobs])


def _job_row(job: Job, now: datetime) -> tuple[str, ...]:
    word, moment = when(job)
    attempts = f"{job.attempt}/{job.max_attempts}"
    when_text = f"{word} {words.relative(moment, now)}"
    error = words.first_line(job.last_error, 50)
    handler = job.handler if job.collected is None else f"{job.handler} ({job.collected:,} values)"
    return (job.id, job.state, handler, job.queue, attempts, when_text, words.exact(moment), error)


def when(job: Job) -> tuple[str, datetime]:
    """Return the moment that matters most about a job now, with its word."""
    if job.state == "running" and job.started_at is not None:
        return "started", job.started_at
    if job.finished_at is not None:
        return "ended", job.finished_at
    return "due", job.run_at


def job_page(terminal: Terminal, job: Job, why: Sequence[Reason], runs: Sequence[Run], now: datetime) -> str:
    lines = [f"{terminal.bold(job.id)}  {job.handler}  {terminal.state(job.state)}"]
    lines += [
        f"  {name:<12}{value}" for name, value in _facts(job, why, now, terminal.language) if value not in ("", None)
    ]
    if runs:
        lines += [
            "",
            terminal.table(("RUN", "OUTCOME", "STARTED", "TOOK", "WORKER", "ERROR"), [_run_row(r) for r in runs]),
        ]
    if job.last_error:
        lines += ["", terminal.faint("the last error"), *("  " + line for line in job.last_error.rstrip().split("\n"))]
    return "\n".join(lines)


def _facts(job: Job, why: Sequence[Reason], now: datetime, language: Language) -> list[tuple[str, Any]]:
    because = [("why" if index == 0 else "", reason.in_words(language)) for index, reason in enumerate(why)]
    return [
        *because,
        ("due", words.both(job.run_at, now)),
        ("planned", words.both(job.planned_at, now) if job.planned_at != job.run_at else ""),
        ("created", words.both(job.created_at, now)),
        ("started", words.both(job.started_at, now)),
        ("ended", words.both(job.finished_at, now)),
        ("queue", f"{job.queue}, priority {job.priority}"),
        ("attempts", f"{job.attempt} of {job.max_attempts} failed or lost"),
        ("owner", job.owner),
        ("payload", _json(job.payload)),
        ("result", "" if job.result is None else _json(job.result)),
        ("progress", "" if job.progress is None else _json(job.progress)),
        ("checkpoint", "" if job.checkpoint is None else _json(job.checkpoint)),
        ("key", job.key),
        ("unique", job.unique),
        ("collected", "" if job.collected is None else f"{job.collected:,} values"),
        ("concurrency", job.concurrency_key),
        ("budget", "" if job.budget is None else f"{job.budget}, at most {_cost(job.cost)} an attempt"),
        ("tags", ", ".join(job.tags)),
        ("timeout", "" if job.timeout is None else words.span(job.timeout)),
        ("trace", job.trace_id),
    ]


def _run_row(run: Run) -> tuple[str, ...]:
    started = "" if run.started_at is None else words.exact(run.started_at)
    took = words.span(run.finished_at - run.started_at) if run.started_at and run.finished_at else ""
    return (run.id, run.outcome, started, took, run.worker_id or "", words.first_line(run.error))


def _cost(cost: Mapping[str, int]) -> str:
    return ", ".join(f"{amount:,} {unit}" for unit, amount in cost.items())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def act_table(terminal: Terminal, acts: Sequence[Act], now: datetime) -> str:
    headers = ("ID", "STATE", "VERB", "PROGRESS", "SKIPPED", "BY", "STARTED", "FILTER")
    return terminal.table(headers, [_act_row(act, now) for act in acts])


def _act_row(act: Act, now: datetime) -> tuple[str, ...]:
    begun = words.relative(act.created_at, now)
    filter_text = words.first_line(act.filter, 50) or f"undoes {act.undoes}"
    return (act.id, act.state, act.verb, _progress(act), f"{act.skipped:,}", act.actor, begun, filter_text)


def _progress(act: Act) -> str:
    return f"{act.changed + act.skipped:,} of {act.matched:,}{'+' * act.more}"


def act_line(act: Act) -> str:
    """Return an act in one line: ``act_3 revive is running: 400 of 10,000+ jobs, 2 skipped``."""
    return f"{act.id} {act.verb} is {act.state}: {_progress(act)} jobs, {act.skipped:,} skipped"


def act_page(terminal: Terminal, act: Act, now: datetime) -> str:
    lines = [f"{terminal.bold(act.id)}  {act.verb}  {terminal.state(act.state)}"]
    facts = [
        ("filter", act.filter),
        ("undoes", act.undoes),
        (
            "jobs",
            f"{act.changed:,} changed, {act.skipped:,} skipped, of {act.matched:,}{'+' * act.more} found at first",
        ),
        ("looked at", f"up to {act.at} of {act.up_to}"),
        ("moves to", words.both(act.run_at, now)),
        ("started", f"{words.both(act.created_at, now)} by {act.actor}"),
        ("ended", words.both(act.finished_at, now)),
        ("reason", act.reason),
        ("owner", act.owner),
        ("worked on", f"by {act.job_id}"),
    ]
    lines += [f"  {name:<12}{value}" for name, value in facts if value not in ("", None)]
    if act.skipped:
        lines += ["", terminal.faint("skipped"), *(f"  {why}: {count:,}" for why, count in act.skipped_for.items())]
        lines += [f"  {job_id} {why}" for job_id, why in act.skipped_first.items()]
    return "\n".join(lines)
