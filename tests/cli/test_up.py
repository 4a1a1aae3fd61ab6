"""The first minute: ``horae up`` tells its story, goes on serving, survives a killed worker, and ends with Ctrl-C."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from horae.server.socket import listen
from tests.cli.conftest import Command, Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def test_up_tells_a_story_serves_on_and_ends_in_order(horae: Command, start: Callable[..., Process]) -> None:
    up = start("up", "--json", "--port", "0")
    answer = up.until("story_told")
    revived = horae("job", "revive", "job_5", "--json").json["id"] == "job_5"
    greeting = next(each for each in up.events() if "printed" in each.get("text", ""))
    schedules = {each["key"]: each for each in horae("schedule", "list", "--json").json["items"]}
    lane = horae("attention", "journal", "--lane", "example", "--json")
    up.started.send_signal(signal.SIGINT)
    ended = up.ended()
    resting = {each["key"]: each["status"] for each in horae("schedule", "list", "--json").json["items"]}

    assert sorted(answer["jobs"].values()) == ["dead"] * 2 + ["succeeded"] * 4
    assert revived
    assert greeting["job_id"] == "job_5"
    assert ended.code == 0, ended.err
    assert {"example.greet", "example.report", "example.invoice", "example.backup"} <= set(schedules)
    assert schedules["example.invoice"]["payload"]["api_key"] == "[masked]"
    assert set(resting.values()) == {"paused"}, "nobody would run their jobs"
    assert lane.code == 0, lane.err


def test_a_killed_worker_is_replaced_and_its_job_goes_on_where_it_was(
    horae: Command, start: Callable[..., Process]
) -> None:
    up = start("up", "--json", "--port", "0")
    pid = up.until("worker_started")["pid"]
    started = wait_until(lambda: progressing(horae, "example.report"), "a report that is under way")
    os.kill(pid, signal.SIGKILL)
    died, again = up.until("worker_died"), up.until("worker_started")
    done = wait_until(lambda: ended_with(horae, started, "succeeded"), "the report to be written after all")
    up.started.send_signal(signal.SIGINT)
    ended = up.ended()

    assert (died["pid"], died["code"], again["pid"] != pid) == (pid, -signal.SIGKILL, True)
    assert [each["outcome"] for each in done["runs"]] == ["lost", "succeeded"]
    assert ended.code == 0, ended.err


def test_a_second_one_takes_a_free_port() -> None:
    with listen("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        with listen("127.0.0.1", taken, or_any=True) as second:
            assert second.getsockname()[1] != taken


def progressing(horae: Command, handler: str) -> str | None:
    """The job of this handler that has shown progress and is not near its end."""
    found = horae("job", "list", "--state", "running", "--handler", handler, "--json").json["items"]
    return next((each["id"] for each in found if each["progress"] and each["progress"]["of"] > 5), None)


def ended_with(horae: Command, job_id: str, state: str) -> dict[str, object] | None:
    shown: dict[str, object] = horae("job", "show", job_id, "--json").json
    job = shown["job"]
    assert isinstance(job, dict)
    return shown if job["state"] == state else None


def test_no_worker_outlives_a_parent_that_was_killed(start: Callable[..., Process]) -> None:
    up = start("up", "--json", "--port", "0", "--bare")
    pid = up.until("worker_started")["pid"]
    up.started.kill()
    up.started.wait()

    wait_until(lambda: not is_alive(pid), "the end of the worker")


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return False


def test_a_bare_one_has_no_examples(horae: Command, start: Callable[..., Process]) -> None:
    up = start("up", "--json", "--port", "0", "--bare")
    up.until("worker_started")
    workers = wait_until(lambda: horae("workers", "list", "--json").json["items"], "a worker")
    jobs, schedules = (horae(room, "list", "--json").json["items"] for room in ("job", "schedule"))
    up.started.send_signal(signal.SIGTERM)
    ended = up.ended()

    assert (jobs, schedules) == ([], [])
    assert workers[0]["queues"] == {"default": 4, "governance": 4}
    assert ended.code == 0, ended.err


def test_a_worker_that_is_asked_to_leave_is_not_replaced(horae: Command, start: Callable[..., Process]) -> None:
    up = start("up", "--json", "--port", "0", "--bare")
    up.until("worker_started")
    (worker,) = wait_until(lambda: horae("workers", "list", "--json").json["items"], "a worker")
    assert horae("workers", "drain", worker["id"], "--leave").code == 0
    left = up.until("worker_left")
    up.started.send_signal(signal.SIGINT)

    assert left["pid"] == worker["pid"]
    assert up.ended().code == 0
