"""``horae job logs`` and ``horae job watch``: what the attempts at a job have logged, and a job as it changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.failures import Exit
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.time.instants import iso
from horae.core.time.spans import span_from
from horae.errors import WaitTimeout

if TYPE_CHECKING:
    from horae.api.jobs.logs import AttemptLog, LoggedLine
    from horae.api.jobs.room import Job
    from horae.cli.verbs import Verbs

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job, such as job_12.")]
Patience = Annotated[str, typer.Option("--timeout", metavar="SPAN", help="Give up after 90s, 5m, 2h …")]
RHYTHM = timedelta(seconds=1)  # between two looks, unless the job ends before
ENDED = ("succeeded", "dead", "cancelled")


def register(group: typer.Typer) -> None:
    examples = ("horae job logs job_12", "horae job logs job_12 --follow")
    command(group, "logs", by_url=True, examples=examples)(logs)
    command(group, "watch", by_url=True, examples=("horae job watch job_12", "horae job watch job_12 --json"))(watch)


def logs(
    terminal: Terminal,
    job_id: JobId,
    attempt: Annotated[int | None, typer.Option("--attempt", metavar="N", min=1, help="Only of this attempt.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    timeout: Patience = "1h",
) -> None:
    """Print what the attempts at a job have logged.

    Lines written through ctx.logger come when an attempt has ended, not while it runs; `horae job watch` shows how far
    a running job is. The last 200 lines of an attempt are kept, up to 64 KiB, with secrets masked.
    """
    limit = span_from(timeout, "timeout")
    with reached(terminal) as here:
        if follow:
            _follow(terminal, here, job_id, attempt, limit)
            return
        found = _of(here.jobs.logs(job_id), attempt)
        if not found and not terminal.is_json:
            terminal.say(_nothing(here.jobs.get(job_id)))
            return
    terminal.result({"items": to_json(found)}, "\n".join(line for each in found for line in _printed(terminal, each)))


def _of(found: Sequence[AttemptLog], attempt: int | None) -> list[AttemptLog]:
    return [each for each in found if attempt in (None, each.attempt)]


def _nothing(job: Job) -> str:
    if job.state == "running":
        return f"{job.id} runs: its lines come when this attempt has ended; --follow waits for them."
    return f"No lines of {job.id}: nothing was logged through ctx.logger, or its job is declared with logs=False."


def _follow(terminal: Terminal, here: Verbs, job_id: str, attempt: int | None, limit: timedelta) -> None:
    """Print the lines of every attempt when it has ended, until the job has."""
    seen: set[str] = set()
    for _ in _changes(here, job_id, limit):
        for each in _of(here.jobs.logs(job_id), attempt):
            if each.run_id not in seen:
                seen.add(each.run_id)
                _tell(terminal, each)


def _tell(terminal: Terminal, found: AttemptLog) -> None:
    terminal.event(to_json(found))
    if not terminal.is_json:
        terminal.out("\n".join(_printed(terminal, found)))


def _printed(terminal: Terminal, found: AttemptLog) -> Iterator[str]:
    yield terminal.faint(f"attempt {found.attempt} ({found.run_id})")
    if found.dropped:
        yield terminal.faint(f"… {words.count(found.dropped, 'earlier line')} not kept")
    for line in found.lines:
        yield from _line(terminal, line)


def _line(terminal: Terminal, line: LoggedLine) -> Iterator[str]:
    first, *further = line.text.split("\n")
    yield f"{terminal.faint(iso(line.at))}  {line.level:<8}  {first}"
    yield from (f"    {each}" for each in further)


def watch(terminal: Terminal, job_id: JobId, timeout: Patience = "1h") -> None:
    """Follow the state and the progress of a job until it has ended.

    Prints a line for every change. Exits with 0 when the job succeeded, with 1 when it is dead or was cancelled, and
    with 75 when it has not ended in time.
    """
    said = ""
    with reached(terminal) as here:
        for job in _changes(here, job_id, span_from(timeout, "timeout")):
            text = _state(terminal, here, job)
            if text != said:
                said = text
                terminal.event(to_json(job))
                if not terminal.is_json:
                    terminal.out(f"{terminal.faint(iso(here.now()))}  {text}")
    if job.state != "succeeded":
        raise typer.Exit(Exit.FAILURE)


def _state(terminal: Terminal, here: Verbs, job: Job) -> str:
    """Return a job in one line: its state, why, and how far it is."""
    parts = [f"{job.id} {terminal.state(job.state)}"]
    if job.state == "running":
        parts.append(f"attempt {job.attempt + 1}")
    if job.state in ENDED and job.finished_at is not None and job.started_at is not None:
        parts.append(f"after {words.span(job.finished_at - job.started_at)}")
    if job.state not in ENDED and job.progress is not None:
        parts.append(f"progress {json.dumps(job.progress, ensure_ascii=False)}")
    if job.state == "succeeded" and job.result is not None:
        parts.append(f"result {json.dumps(job.result, ensure_ascii=False)}")
    if job.state != "succeeded":
        parts += [reason.in_words(terminal.language) for reason in here.jobs.why(job.id)[:1] if job.state != "running"]
    return ", ".join(parts)


def _changes(here: Verbs, job_id: str, limit: timedelta) -> Iterator[Job]:
    """Yield a job again and again, once a second, and for the last time when it has ended."""
    until = here.now() + limit
    while True:
        job = here.jobs.get(job_id)
        yield job
        if job.state in ENDED:
            return
        left = until - here.now()
        try:
            here.jobs.wait(job_id, timeout=max(timedelta(0), min(RHYTHM, left)))
        except WaitTimeout:
            if left <= timedelta(0):
                raise
