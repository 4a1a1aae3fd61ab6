"""The example workers, run as they are: other processes, real sockets, real signals."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.core.jobs.job import Job
from horae.core.jobs.retry import Retry
from horae.service.dialects.job_shapes import SCHEDULER
from tests.conftest import needs
from tests.support import programs
from tests.support.serving import Served, serving
from tests.support.waiting import wait_until

WORKERS = Path(__file__).parents[2] / "examples" / "workers"
PATIENCE = 60.0
Start = Callable[..., subprocess.Popen[str]]

# What the shell worker runs: it does what worker.py's handlers do, by the job's handler.
HANDLE = """
job=$(cat)
case $(jq -r .handler <<< "$job") in
    greet) jq '{text: ("Hello, " + .payload.name)}' <<< "$job" ;;
    govern) jq '{object: (.object_type + "/" + .object_id), did: .action}' <<< "$job" ;;
    *) echo "RuntimeError: it went off" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    with serving(sqlite_database_url) as running:
        yield running


@pytest.fixture
def start(served: Served) -> Iterator[Start]:
    """Start a worker; it listens to alice's jobs."""
    started: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "HORAE_URL": served.url, "HORAE_TOKEN": served.token("alice", "worker")}

    def run(*command: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        worker = subprocess.Popen(command, env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        started.append(worker)
        return worker

    yield run
    for worker in started:
        worker.terminate()  # in order, so that no child of its own stays behind
        worker.communicate(timeout=PATIENCE)


@pytest.fixture(params=["python", "shell"])
def worker(request: pytest.FixtureRequest, start: Start) -> subprocess.Popen[str]:
    if request.param == "python":
        return start(sys.executable, str(WORKERS / "worker.py"))
    return start(str(WORKERS / "worker.sh"), "bash", "-c", with_tools(HANDLE))


def with_tools(script: str) -> str:
    """Return the script, after a look for the programs that it and the worker run."""
    for program in (programs.CURL, programs.JQ):
        needs(program)
    return script


def put(served: Served, handler: str, **more: Any) -> str:
    retry = Retry.fixed(0, attempts=2)
    return verbs.enqueue(served.world, Request(handler, queue=SCHEDULER, owner="alice", retry=retry, **more)).id


def ended(served: Served, job_id: str) -> Job:
    """Return the job, once it has ended."""
    wait_until(lambda: verbs.get(served.world, job_id).state not in ("queued", "running"))
    return verbs.get(served.world, job_id)


def test_a_worker_runs_what_it_pulls_and_ends_when_asked(served: Served, worker: subprocess.Popen[str]) -> None:
    governed = put(served, "govern", object_type="memory", object_id="m1", action="verify")
    greeted = put(served, "greet", payload={"name": "Ada \u4e16\u754c"})
    failing = put(served, "explode")

    assert ended(served, greeted).result == {"text": "Hello, Ada \u4e16\u754c"}
    assert ended(served, governed).result == {"object": "memory/m1", "did": "verify"}
    dead = ended(served, failing)
    assert (dead.state, dead.attempt, (dead.last_error or "").strip()) == ("dead", 2, "RuntimeError: it went off")

    worker.send_signal(signal.SIGTERM)
    response, _ = worker.communicate(timeout=PATIENCE)
    assert (worker.returncode, response.strip().splitlines()[-1].split()[-1]) == (0, "ended")


def test_a_worker_that_is_asked_to_end_finishes_the_job_at_hand(served: Served, start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    script = with_tools(f"until [ -e {flag} ]; do sleep 0.05; done; echo done")
    worker = start(str(WORKERS / "worker.sh"), "bash", "-c", script)
    job, waiting = put(served, "slow"), put(served, "slow")
    until_running(served, job)
    worker.send_signal(signal.SIGTERM)
    flag.touch()
    assert ended(served, job).result == "done\n"
    worker.communicate(timeout=PATIENCE)
    assert verbs.get(served.world, waiting).state == "queued"


def until_running(served: Served, job_id: str) -> None:
    wait_until(lambda: verbs.get(served.world, job_id).state == "running")


@pytest.mark.parametrize("kind", ["python", "shell"])
def test_a_worker_renews_a_job_that_takes_long(kind: str, served: Served, start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    if kind == "shell":
        script = with_tools(f"until [ -e {flag} ]; do sleep 0.05; done")
        start("env", "HORAE_LEASE=12", str(WORKERS / "worker.sh"), "bash", "-c", script)
    else:
        (tmp_path / "slow.py").write_text(
            "import pathlib, sys, time, worker\n"
            f"def slow(job):\n    while not pathlib.Path({str(flag)!r}).exists():\n        time.sleep(0.05)\n"
            "worker.HANDLERS['slow'] = slow\nworker.main()\n"
        )
        start("env", "HORAE_LEASE=12", f"PYTHONPATH={WORKERS}", sys.executable, str(tmp_path / "slow.py"))
    job = put(served, "slow")
    until_running(served, job)
    first = verbs.get(served.world, job).leased_until
    wait_until(lambda: verbs.get(served.world, job).leased_until != first)
    flag.touch()
    assert (ended(served, job).state, ended(served, job).attempt) == ("succeeded", 0)


def test_a_worker_waits_for_a_server_that_is_not_there_yet(start: Start, served: Served) -> None:
    """It says so and goes on; nothing but a signal ends it."""
    worker = start("env", "HORAE_URL=http://127.0.0.1:9", sys.executable, str(WORKERS / "worker.py"))
    assert worker.stdout is not None
    lines = iter(worker.stdout.readline, "")
    assert any("no answer from the server" in line for line in lines)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
