"""Judges a history: what was acknowledged, what the store says became of it, what the handlers did.

The rules are those of a queue under faults: nothing that was acknowledged is lost, every job ends once, tokens only
grow, leases never overlap, nothing starts early, and every attempt that ended without success was counted. Each rule
answers with complaints, one line each; ``assert complaints(…) == []`` shows them all.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import text

from horae.ports.world import World

COUNTED = ("failed", "timed_out", "lost")
FINAL = ("succeeded", "cancelled")


@dataclass(frozen=True)
class Attempt:
    """One run as the store tells it; times in microseconds."""

    job: int
    token: int
    outcome: str
    state: str | None  # the job's last state, if this was its last run
    attempt: int
    started_at: int | None
    finished_at: int | None
    planned_at: int | None = None


@dataclass(frozen=True)
class Live:
    """A job that has not ended, or is dead."""

    job: int
    state: str
    token: int
    attempt: int


@dataclass(frozen=True)
class Effect:
    """What a handler did outside, written down by itself: the only witness that does not trust the store."""

    what: str
    job: int
    token: int
    pid: int
    at: float
    attempt: int = 0
    detail: Any = None


@dataclass(frozen=True)
class History:
    acknowledged: frozenset[int]
    attempts: Sequence[Attempt]
    live: Sequence[Live] = ()
    effects: Sequence[Effect] = field(default=())

    def of(self, job: int) -> list[Attempt]:
        return sorted((each for each in self.attempts if each.job == job), key=lambda each: each.token)


def complaints(history: History) -> list[str]:
    """Everything that is wrong with a history that has come to rest."""
    by_job: dict[int, list[Attempt]] = {}
    for attempt in sorted(history.attempts, key=lambda each: each.token):
        by_job.setdefault(attempt.job, []).append(attempt)
    answer = _lost(history, by_job) + _unfinished(history)
    for job, attempts in sorted(by_job.items()):
        answer += (
            _ends_once(job, attempts, history) + _tokens_grow(job, attempts) + _leases_do_not_overlap(job, attempts)
        )
        answer += _never_early(job, attempts) + _attempts_are_counted(job, attempts)
    return answer + _effects_have_a_run(history, by_job)


def _lost(history: History, by_job: dict[int, list[Attempt]]) -> list[str]:
    seen = by_job.keys() | {each.job for each in history.live}
    return [f"lost: job {job} was acknowledged and is gone" for job in sorted(history.acknowledged - seen)]


def _unfinished(history: History) -> list[str]:
    return [f"unfinished: job {each.job} is still {each.state}" for each in history.live if each.state != "dead"]


def _ends_once(job: int, attempts: list[Attempt], history: History) -> list[str]:
    finals = [each for each in attempts if each.state in FINAL]
    answer = [f"ended twice: job {job} with tokens {[each.token for each in finals]}"] if len(finals) > 1 else []
    if finals and any(each.job == job for each in history.live):
        answer.append(f"ended and alive: job {job}")
    if finals and attempts[-1] is not finals[-1]:
        answer.append(
            f"stale ending: job {job} ended with token {finals[-1].token}, though {attempts[-1].token} followed"
        )
    return answer


def _tokens_grow(job: int, attempts: list[Attempt]) -> list[str]:
    doubled = [token for token, count in Counter(each.token for each in attempts).items() if count > 1]
    answer = [f"token twice: job {job} token {token}" for token in doubled]
    ends = [each.finished_at or 0 for each in attempts]
    return answer + ([f"token order: job {job} ended out of the order of its tokens"] if ends != sorted(ends) else [])


def _leases_do_not_overlap(job: int, attempts: list[Attempt]) -> list[str]:
    timed = [each for each in attempts if each.started_at is not None and each.finished_at is not None]
    return [
        f"overlap: job {job} was held with tokens {before.token} and {after.token} at once"
        for before, after in pairwise(timed)
        if (after.started_at or 0) < (before.finished_at or 0)
    ]


def _never_early(job: int, attempts: list[Attempt]) -> list[str]:
    planned = next((each.planned_at for each in attempts if each.planned_at is not None), None)
    return [
        f"early: job {job} token {each.token} started {planned - each.started_at} µs before it was due"
        for each in attempts
        if planned is not None and each.started_at is not None and each.started_at < planned
    ]


def _attempts_are_counted(job: int, attempts: list[Attempt]) -> list[str]:
    expected, answer = 0, []
    for each in attempts:
        expected += each.outcome in COUNTED
        if each.attempt != expected:
            answer.append(
                f"miscounted: job {job} token {each.token} says {each.attempt} failed attempts, not {expected}"
            )
    return answer


def _effects_have_a_run(history: History, by_job: dict[int, list[Attempt]]) -> list[str]:
    known = {(each.job, each.token) for each in history.attempts}
    known |= {(each.job, each.token) for each in history.live if each.state == "running"}
    ghosts = sorted({(effect.job, effect.token) for effect in history.effects} - known)
    return [
        f"ghost: job {job} did something with token {token}, of which the store knows no run" for job, token in ghosts
    ]


# -- gathering ---------------------------------------------------------------------------------------------------


def read_history(world: World, acknowledged: Iterable[int], effects: Sequence[Effect] = ()) -> History:
    """Read the store's side of the story in two statements, however many jobs there are."""
    runs = text("SELECT job_id, token, outcome, state, attempt, started_at, finished_at, planned_at FROM horae_runs")
    jobs = text("SELECT id, state, token, attempt FROM horae_jobs")
    attempts = world.store.read(lambda tx: [Attempt(*row) for row in tx.connection.execute(runs)])
    live = world.store.read(lambda tx: [Live(*row) for row in tx.connection.execute(jobs)])
    return History(frozenset(acknowledged), attempts, live, tuple(effects))


def read_effects(path: Path) -> list[Effect]:
    """Read one JSON object a line; a line that a killed process left half-written does not count."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found.append(Effect(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found
