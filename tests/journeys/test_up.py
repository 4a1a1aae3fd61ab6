"""``horae up``: service and worker in one process; what was accepted outlives it."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.waiting import wait_until

LIMIT = 60  # seconds; a busy machine may need many of them
Up = Callable[[], tuple["subprocess.Popen[str]", dict[str, Any]]]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    begun: list[subprocess.Popen[str]] = []

    def start() -> tuple[subprocess.Popen[str], dict[str, Any]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "horae", "up", "--json", "--port", "0"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        begun.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            if answer["event"] == "serving":
                return process, answer
        raise AssertionError("it never served")

    yield start
    for process in begun:
        with suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def client(answer: dict[str, Any]) -> httpx.Client:
    headers = {"Authorization": f"Bearer {answer['token']}"}
    return httpx.Client(base_url=answer["url"], headers=headers, timeout=LIMIT)


def test_what_was_accepted_before_kill_9_is_there_and_runs_after_a_restart(up: Up) -> None:
    """S0: an accepted job survives whatever happens to the process that accepted it."""
    process, answer = up()
    with client(answer) as first:
        later = {"handler": "example.greet", "queue": "example", "payload": {"name": "survivor"}}
        waiting = first.post("/scheduler/jobs", json={"handler": "far", "payload": {"n": 1}}).json()["job_id"]
        process.kill()
        process.wait()

    process, again = up()
    with client(again) as second:
        assert second.get(f"/scheduler/jobs/{waiting}").json()["payload"] == {"n": 1}
        made = second.post("/scheduler/jobs", json=later)
        assert made.status_code == 201, made.text
        job_id = made.json()["job_id"]
        done = wait_until(lambda: finished(second, job_id), "the greeting")
        assert done["result"] == "greeted survivor"
        assert second.get("/readyz").json()["status"] in ("ready", "degraded")

    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT) == 0


def finished(service: httpx.Client, job_id: str) -> dict[str, Any] | None:
    answer: dict[str, Any] = service.get(f"/scheduler/jobs/{job_id}").json()
    return answer if answer["status"] in ("succeeded", "done") else None


def test_the_token_of_one_start_ends_with_it(up: Up) -> None:
    process, answer = up()
    with client(answer) as first:
        assert first.get("/tokens").status_code == 200
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 0

    _, again = up()
    with client({**again, "token": answer["token"]}) as late:
        assert late.get("/tokens").status_code == 401
