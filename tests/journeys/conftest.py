"""What a journey needs: a database, worker processes it can kill, gates it can open, and a judge at the end."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from horae import Horae
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.jobs.job import Run
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from tests.journeys.program import build
from tests.support.history import Effect, complaints, read_effects, read_history
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url
from tests.support.waiting import pass_time_in_thread, wait_until

ROOT = Path(__file__).parents[2]
LIMIT = 60.0  # how long anything may take on a slow machine before we call it never
LEASE = 3.0  # seconds: short enough to see it run out
STEADY = 20.0  # seconds: a lease that nobody loses, however busy the machine is; for heirs

SETTLED_VIEW = 0.15  # seconds: MariaDB shows the same picture again to whoever asks within a tenth of a second
WRITING = {
    "postgresql": "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation "
    "WHERE c.relname = 'horae_jobs' AND l.mode IN ('RowShareLock', 'RowExclusiveLock')",
    "mysql": "SELECT count(*) FROM information_schema.innodb_trx",
}


@dataclass
class Member:
    """One process of the crew."""

    process: subprocess.Popen[bytes]
    log: Path
    effects: Callable[[], list[Effect]]

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, number: signal.Signals) -> float:
        """Send a signal; answers with the time, by the system's clock."""
        self.process.send_signal(number)
        return time.time()

    def wait(self, within: float = LIMIT) -> int:
        return self.process.wait(within)

    def until(self, what: str, count: int = 1) -> Effect:
        """Wait until this process has written that down so often."""

        def seen() -> list[Effect]:
            if self.process.poll() not in (None, 0) and what != "ended":
                pytest.fail(f"process {self.pid} ended with {self.process.returncode}:\n{self.log.read_text()[-3000:]}")
            found = [effect for effect in self.effects() if effect.pid == self.pid and effect.what == what]
            return found if len(found) >= count else []

        result: list[Effect] = wait_until(seen, f"{what!r} in process {self.pid}")
        return result[-1]

    def until_stopped(self) -> None:
        """Wait until a fault has stopped the process."""
        waiting = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        wait_until(lambda: os.waitid(os.P_PID, self.pid, waiting), f"the stop of process {self.pid}")

    def end(self) -> dict[str, int]:
        """End in order; answers with how its runs ended."""
        self.send(signal.SIGTERM)
        self.wait()
        counts: dict[str, int] = self.until("ended").detail
        return counts


@dataclass
class Journey:
    """One database, one application on it, and a crew of processes."""

    url: str
    home: Path
    app: Horae
    crew: list[Member] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)

    # -- processes -----------------------------------------------------------------------------------------------

    def worker(
        self, *, fault: str = "", ready: bool = True, environment: dict[str, str] | None = None, **settings: Any
    ) -> Member:
        """A worker process with a lease of LEASE seconds, unless told otherwise."""
        result = json.dumps({"lease": LEASE, "grace": 1.0, **settings})
        member = self.python("-m", "tests.journeys.program", result, HORAE_FAULT=fault, **(environment or {}))
        if ready:
            member.until("ready")
        return member

    def python(self, *arguments: str, **environment: str) -> Member:
        number = len(self.crew) + 1
        log = self.home / f"log-{number}"
        env = {**os.environ, "HORAE_DATABASE_URL": self.url, "JOURNEY_HOME": str(self.home), **environment}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with log.open("wb") as out:
            process = subprocess.Popen([sys.executable, *arguments], stdout=out, stderr=out, cwd=ROOT, env=env)
        member = Member(process, log, self.effects)
        self.crew.append(member)
        return member

    def pause(self, member: Member) -> float:
        """SIGSTOP, but not in the middle of a transaction: its locks would keep everybody else waiting with it."""
        for _ in range(100):
            stopped_at = member.send(signal.SIGSTOP)
            if not self.somebody_writes():
                return stopped_at
            member.send(signal.SIGCONT)
            pass_time_in_thread(0.03)  # let it get out of there
        pytest.fail(f"process {member.pid} writes all the time")

    def somebody_writes(self) -> bool:
        engine = self.app.engine
        if engine.dialect.name == "sqlite":
            with closing(sqlite3.connect(engine.url.database or "", timeout=0.2)) as probe:
                try:
                    probe.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    return True
                return False
        pass_time_in_thread(SETTLED_VIEW)
        with engine.connect() as connection:
            return bool(connection.execute(text(WRITING[engine.dialect.name])).scalar())

    def dismiss(self) -> None:
        for member in self.crew:
            with suppress(ProcessLookupError):
                member.process.kill()
        for member in self.crew:
            member.wait()

    # -- doing ---------------------------------------------------------------------------------------------------

    def enqueue(self, name: str, **arguments: Any) -> Enqueued:
        """Enqueue and remember that it was acknowledged."""
        job = self.app.enqueue(name, **arguments)
        self.acknowledged.append(job.job.number)
        return job

    def brief(self, number: int, **options: Any) -> Request:
        """A request for a short job that is tried once."""
        definition = self.app.definitions.get("brief")
        return Request(definition.name, {"number": number}, retry=definition.retry, **options)

    def enqueue_brief(self, count: int) -> None:
        """Many short jobs in one transaction."""
        requests = [self.brief(number) for number in range(count)]
        self.acknowledged += [job.job.number for job in self.app.enqueue_many(requests)]

    def open(self, gate: str) -> None:
        (self.home / gate).touch()

    def set_clock(self, seconds: float) -> None:
        """Set the clock of the host, as seen by all processes that were started with a skew."""
        written = self.home / "clock-step.new"
        written.write_text(str(seconds))
        written.rename(self.home / "clock-step")

    # -- asking --------------------------------------------------------------------------------------------------

    def effects(self) -> list[Effect]:
        return read_effects(self.home / "effects")

    def ran(self, what: str = "ran") -> list[Effect]:
        return [effect for effect in self.effects() if effect.what == what]

    def runs(self, job: Enqueued) -> list[Run]:
        return verbs.runs(self.app.world, job.id)

    def live(self) -> int:
        """How many jobs wait or run."""
        result = verbs.counts(self.app.world)
        return sum(states["queued"] + states["running"] for states in result.values())

    def until_done(self, jobs: Iterable[Enqueued] | None = None, within: float = LIMIT) -> None:
        if jobs is None:
            wait_until(lambda: self.live() == 0, "the end of all jobs", within)
            return
        for job in jobs:
            wait_until(partial(self._has_ended, job.id), f"the end of {job.id}", within)

    def _has_ended(self, job_id: str) -> bool:
        return self.app.get(job_id).state not in ("queued", "running")

    def complaints(self) -> list[str]:
        """What the judge says once everything has come to rest."""
        effects = [effect for effect in self.effects() if effect.job]
        return complaints(read_history(self.app.world, self.acknowledged, effects))


def until_renewed(journey: Journey, job_id: str, *, times: int) -> None:
    """Wait until the lease of a job has been extended so often."""
    seen = {journey.app.get(job_id).leased_until}

    def often() -> bool:
        seen.add(journey.app.get(job_id).leased_until)
        return len(seen) > times

    wait_until(often, "renewals")


def setting_out(url: str, home: Path) -> Iterator[Journey]:
    engine = create_store_engine(url)
    migrate(engine)
    engine.dispose()
    with build(url) as app:
        journey = Journey(url, home, app)
        try:
            yield journey
        finally:
            journey.dismiss()


@pytest.fixture
def journey(database_url: str, tmp_path: Path) -> Iterator[Journey]:
    """On each of the three databases."""
    yield from setting_out(database_url, tmp_path)


@pytest.fixture
def sqlite_journey(sqlite_database_url: str, tmp_path: Path) -> Iterator[Journey]:
    yield from setting_out(sqlite_database_url, tmp_path)


@pytest.fixture
def postgres_journey(postgres_database_url: str, tmp_path: Path) -> Iterator[Journey]:
    yield from setting_out(postgres_database_url, tmp_path)
