"""Real workers: they serve, they end in order, and they say what is wrong with a target."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, Process
from tests.support.waiting import wait_until

Start = Callable[..., Process]


def test_a_worker_runs_what_waits_and_ends_when_its_queues_are_empty(
    project: Path, horae: Command, start: Start
) -> None:
    add = ("job", "enqueue", "add", "--app", "tasks:app", "--arg", "left=1", "--arg", "right=2", "--json")
    job_id = horae(*add).json["id"]
    stubborn = horae("job", "enqueue", "stubborn", "--app", "tasks:app", "--json").json["id"]

    ended = start("worker", "tasks:app", "--until-empty", "--json").ended()

    events = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0, ended.err
    assert events[0]["queues"] == {"default": 50, "governance": 50, "sums": 50}
    assert events[-1] == {"event": "ended", "runs": {"succeeded": 1, "failed": 2}}
    assert horae("job", "show", job_id, "--db", "sqlite:///app.db", "--json").json["job"]["result"] == 3
    assert horae("job", "show", stubborn, "--db", "sqlite:///app.db", "--json").json["job"]["state"] == "dead"


def test_a_worker_ends_when_all_that_is_left_waits_for_ever_and_says_so(
    project: Path, horae: Command, start: Start
) -> None:
    enqueue = ("job", "enqueue", "stubborn", "--app", "tasks:app", "--json")
    parent = horae(*enqueue).json["id"]
    waits = horae(*enqueue, "--after", parent, "--on-parent-dead", "wait").json["id"]
    cancelled = horae(*enqueue, "--after", parent).json["id"]
    beyond = horae(*enqueue, "--after", waits).json["id"]

    ended = start("worker", "tasks:app", "--until-empty", "--json").ended()

    events = {each["event"]: each for each in map(json.loads, ended.out.splitlines())}
    assert ended.code == 0, ended.err
    assert events["left"]["jobs"] == {waits: parent, beyond: parent}
    assert f"{waits} for {parent}" in ended.err
    show = ("job", "show", "--db", "sqlite:///app.db")
    assert horae(*show, cancelled, "--json").json["job"]["state"] == "cancelled"
    assert f"it waits for {parent}, which is dead" in horae(*show, waits).out


def test_a_job_that_comes_too_late_for_its_parent_is_told_so(project: Path, horae: Command) -> None:
    enqueue = ("job", "enqueue", "stubborn", "--app", "tasks:app")
    parent = horae(*enqueue, "--json").json["id"]
    horae("job", "cancel", parent, "--db", "sqlite:///app.db")

    late = horae(*enqueue, "--after", parent)
    assert f"cancelled at once: {parent}, which it waited for, was cancelled" in late.out
    wrong = horae(*enqueue, "--after", parent, "--on-parent-dead", "perhaps")
    assert (wrong.code, "choose one of cancel, run, wait" in wrong.err) == (2, True)


def test_a_worker_ends_though_tenants_jobs_are_held_that_it_must_not_run(
    project: Path, horae: Command, start: Start
) -> None:
    add = ("job", "enqueue", "add", "--app", "tasks:app", "--arg", "left=1", "--arg", "right=2", "--owner", "alice")
    job_id = horae(*add, "--json").json["id"]

    ended = start("worker", "tasks:app", "--until-empty", "--json").ended()

    assert ended.code == 0, ended.err
    why = horae("job", "show", job_id, "--db", "sqlite:///app.db")
    assert "not open to tenants" in why.out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_gives_back_what_does_not_finish_within_the_grace(
    number: signal.Signals, project: Path, horae: Command, start: Start
) -> None:
    job_id = horae("job", "enqueue", "endless", "--app", "tasks:app", "--json").json["id"]
    worker = start("worker", "tasks:app", "--grace", "100ms", "--queues", "default=1")
    worker.until_it_says("endless has begun")

    worker.started.send_signal(number)
    ended = worker.ended()

    job = horae("job", "show", job_id, "--db", "sqlite:///app.db", "--json").json["job"]
    assert ended.code == 0, ended.err
    assert (job["state"], job["attempt"]) == ("queued", 0)


def test_a_second_signal_ends_at_once_and_gives_back_what_runs(project: Path, horae: Command, start: Start) -> None:
    job_id = horae("job", "enqueue", "endless", "--app", "tasks:app", "--json").json["id"]
    worker = start("worker", "tasks:app", "--grace", "1h")
    worker.until_it_says("endless has begun")

    def interrupted_again() -> bool:
        """Press again until it counts: two signals within 0.3 s are one."""
        worker.started.send_signal(signal.SIGINT)
        return worker.started.poll() is not None

    worker.started.send_signal(signal.SIGINT)
    worker.until_it_says("claims nothing more")
    wait_until(interrupted_again)

    assert worker.ended().code == 130
    job = horae("job", "show", job_id, "--db", "sqlite:///app.db", "--json").json["job"]
    assert (job["state"], job["attempt"]) == ("queued", 0)


def test_the_database_on_the_command_line_wins_over_the_app_s_own(project: Path, horae: Command, start: Start) -> None:
    elsewhere = "sqlite:///elsewhere.db"
    enqueue = ("job", "enqueue", "add", "--app", "tasks:app", "--arg", "left=1", "--arg", "right=2")
    horae(*enqueue, "--db", elsewhere)

    ended = start("worker", "tasks:app", "--until-empty", "--db", elsewhere).ended()

    assert ended.code == 0, ended.err
    assert not (project / "app.db").exists()
    assert horae("job", "list", "--db", elsewhere, "--json").json["items"][0]["state"] == "succeeded"


def test_log_lines_can_be_json(project: Path, horae: Command, start: Start) -> None:
    horae("job", "enqueue", "stubborn", "--app", "tasks:app")

    ended = start("worker", "tasks:app", "--until-empty", "--log-format", "json", "--quiet").ended()

    lines = [json.loads(line) for line in ended.err.splitlines()]
    assert {line["job_id"] for line in lines if "nobody answers" in line["message"]} == {"job_1"}


def test_a_worker_is_told_how_long_to_keep_things(project: Path, horae: Command, start: Start) -> None:
    """Several at once; what is left out is as the environment says."""
    ended = start("worker", "tasks:app", "--until-empty", "--keep", "runs=90d, keys=14d").ended()

    assert ended.code == 0, ended.err


def test_a_start_says_what_is_served_and_what_is_not(project: Path, start: Start) -> None:
    ended = start("worker", "tasks:app", "--until-empty", "--queues", "default=2").ended()

    assert "default (2 at once)" in ended.err
    assert "add, endless, stubborn" in ended.err
    assert "not served here, though its app declares jobs for it: sums" in ended.err


def test_a_worker_for_users_tasks_needs_no_application_and_takes_document_001_s_flags(
    environment: Path, horae: Command, start: Start
) -> None:
    """S1-20, S1-22, S1-34: the line of the document's unit file, as it is printed there."""
    (environment / "jobs.conf").write_text('[[jobs.items]]\nid = "of-another-application"\nenabled = false\n')
    enqueue = ("job", "enqueue", "dispatch", "--arg", "text=hello", "--db", "sqlite:///tasks.db")
    job_id = horae(*enqueue, "--json").json["id"]
    flags = ("--poll", "5", "--batch", "10", "--lease", "120")

    worker = start("worker", "--tasks", *flags, "--db", "sqlite:///tasks.db", "--json")
    begun = worker.until("started")
    worker.until_it_says("ORCHESTRATOR_URL")
    worker.started.send_signal(signal.SIGTERM)
    ended = worker.ended()

    job = horae("job", "show", job_id, "--db", "sqlite:///tasks.db", "--json").json["job"]
    assert ended.code == 0, ended.err
    assert {"dispatch", "webhook", "attend"} <= set(begun["jobs"])
    assert (job["state"], job["attempt"]) == ("queued", 1)


@pytest.mark.parametrize(
    ("flags", "reason", "facts"),
    [
        (("tasks:app", "--tasks"), "tasks_with_application", {}),
        (("--tasks", "--config", "jobs.conf"), "tasks_with_config", {}),
        (("tasks:app", "--lease", "10ms"), "lease_under_a_second", {"lease": 0.01}),
        (("tasks:app", "--log-level", "loud"), "log_option_unknown", {"format": "json", "level": "loud"}),
        (("tasks:app", "--poll", "2m"), "value_invalid", {"where": "--poll"}),
        (("tasks:app", "--poll", "0"), "value_invalid", {"where": "--poll"}),
        (("tasks:app", "--batch", "0"), "value_invalid", {"where": "--batch"}),
        (("tasks:app", "--batch", "many"), "value_invalid", {"where": "--batch"}),
        (("tasks:app", "--keep", "runs=1m"), "value_invalid", {"where": "--keep runs"}),
        (("tasks:app", "--keep", "logs=1d"), "keep_unreadable", {"text": "logs=1d"}),
        (("tasks:app", "--keep", "runs"), "keep_unreadable", {"text": "runs"}),
    ],
)
def test_flags_that_cannot_work_are_refused(
    flags: tuple[str, ...], reason: str, facts: dict[str, Any], project: Path, horae: Command
) -> None:
    horae("worker", *flags, "--json").assert_refused(2, reason, facts)


@pytest.mark.parametrize(
    ("target", "code", "reason", "facts"),
    [
        ("task:app", 2, "module_misspelt", {"module": "task", "close": "tasks"}),
        ("missing_here:app", 2, "module_missing", {"module": "missing_here"}),
        ("tasks.py:app", 2, "target_is_path", {"module": "tasks:app"}),
        ("tasks:ap", 2, "app_has_no_such_name", {"name": "ap", "apps": ["tasks:app"]}),
        ("tasks:Horae", 2, "app_of_wrong_type", {"type": "type", "apps": ["tasks:app"]}),
        ("json:app", 2, "app_has_no_such_name", {"module": "json", "apps": []}),
        ("ta-sks:app", 2, "module_name_unreadable", {"text": "ta-sks"}),
        ("broken:app", 78, "module_broken", {"problem": "ZeroDivisionError: division by zero"}),
        ("needy:app", 78, "module_needs_package", {"package": "not_installed_here"}),
        ("declared_twice:app", 78, "module_broken", {"module": "declared_twice"}),
        ("eager:app", 78, "app_opens_database_early", {"target": "eager:app"}),
    ],
)
def test_a_bad_target_is_refused_with_what_would_work(
    target: str, code: int, reason: str, facts: dict[str, Any], project: Path, horae: Command
) -> None:
    (project / "broken.py").write_text("1 / 0\n")
    (project / "needy.py").write_text("import not_installed_here\n")
    twice = "from horae import Horae\napp = Horae()\nfor _ in range(2):\n    app.job('same')(lambda: None)\n"
    (project / "declared_twice.py").write_text(twice)
    (project / "eager.py").write_text("from horae import Horae\napp = Horae('sqlite:///own.db')\napp.world\n")

    ended = horae("job", "enqueue", "add", "--app", target, "--db", "sqlite:///other.db", "--json")

    ended.assert_refused(code, reason, facts)


@pytest.mark.parametrize(
    "wrong",
    [[], ["tasks:app", "--queues", "a=b"], ["tasks:app", "--lease", "1ms"], ["tasks:app", "--log-format", "xml"]],
)
def test_a_worker_that_cannot_be_meant_is_a_usage_error(wrong: list[str], project: Path, horae: Command) -> None:
    assert horae("worker", *wrong).code == 2


def test_a_worker_whose_handler_stops_the_event_loop_asks_to_be_started_again(
    project: Path, horae: Command, start: Start
) -> None:
    (project / "breaks.py").write_text(
        "import asyncio\nfrom horae import Horae\n\napp = Horae('sqlite:///app.db')\n\n\n@app.job('break')\n"
        "async def break_it():\n    asyncio.get_running_loop().stop()\n    await asyncio.sleep(60)\n"
    )
    job_id = horae("job", "enqueue", "break", "--app", "breaks:app", "--json").json["id"]

    ended = start("worker", "breaks:app").ended()

    job = horae("job", "show", job_id, "--db", "sqlite:///app.db", "--json").json["job"]
    assert (ended.code, "start it again" in ended.err, "Traceback" in ended.err) == (75, True, False), ended.err
    assert (job["state"], job["attempt"]) == ("queued", 0)
