"""Jobs as people read them in a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from horae.cli import words
from horae.words.languages import Language

if TYPE_CHECKING:
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
    return (job.id, job.state, job.handler, job.queue, attempts, when_text, words.exact(moment), error)


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
        ("concurrency", job.concurrency_key),
        ("tags", ", ".join(job.tags)),
        ("timeout", "" if job.timeout is None else words.span(job.timeout)),
        ("trace", job.trace_id),
    ]


def _run_row(run: Run) -> tuple[str, ...]:
    started = "" if run.started_at is None else words.exact(run.started_at)
    took = words.span(run.finished_at - run.started_at) if run.started_at and run.finished_at else ""
    return (run.id, run.outcome, started, took, run.worker_id or "", words.first_line(run.error))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
