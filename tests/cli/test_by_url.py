"""``horae worker --url`` and ``horae check --url``: a process that reaches a service and opens no database."""

import json
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from horae.actions.jobs import jobs as verbs
from tests.cli.conftest import Command, Process
from tests.support.serving import Served, serving
from tests.support.waiting import wait_until

Start = Callable[..., Process]

NO_SERVICE = "http://127.0.0.1:1"
NO_DATABASE = "sqlite:////nowhere/at/all.db"
WRONG = "wr0ng-t0ken"
NEEDY = """
from horae import Context, Horae

app = Horae("sqlite:///app.db")


@app.job("clean", cron="0 3 * * *", lock_ttl=60)
def clean(ctx: Context) -> None: ...


@app.job("everywhere", every=300, mode="ALL_NODES")
def everywhere(ctx: Context) -> None: ...


@app.job("plain")
def plain(ctx: Context) -> None: ...
"""


@pytest.fixture
def needy(project: Path) -> Path:
    """An application of which two jobs need a database."""
    (project / "needy.py").write_text(NEEDY)
    return project


@pytest.fixture
def served(project: Path) -> Iterator[Served]:
    with serving(f"sqlite:///{project}/service.db") as running:
        yield running


# -- what is refused before anything starts ------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["worker", "check"])
def test_a_service_and_a_database_are_one_too_many(command: str, horae: Command, project: Path) -> None:
    ended = horae(command, "tasks:app", "--url", NO_SERVICE, "--db", "sqlite:///app.db", "--json")

    ended.assert_refused(2, "database_or_service")
    assert not (project / "app.db").exists()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("--tasks",), ["--tasks"]),
        (("--until-empty",), ["--until-empty"]),
        (("--keep", "runs=90d", "--until-empty"), ["--until-empty", "--keep"]),
    ],
)
def test_options_that_need_the_database_are_refused_by_name(
    arguments: tuple[str, ...], options: list[str], horae: Command, project: Path
) -> None:
    ended = horae("worker", "tasks:app", *arguments, "--url", NO_SERVICE, "--json")

    ended.assert_refused(78, "options_need_database", {"options": options})


@pytest.mark.parametrize("command", ["worker", "check"])
def test_what_is_no_url_is_refused(command: str, horae: Command, project: Path) -> None:
    ended = horae(command, "tasks:app", "--url", "nonsense", "--json")

    assert (ended.code, ended.json["error"]["code"]) == (2, "invalid_input")


def test_a_worker_whose_jobs_need_a_database_does_not_start(horae: Command, needy: Path) -> None:
    ended = horae("worker", "needy:app", "--url", NO_SERVICE, "--json")

    assert (ended.code, ended.json["error"]["code"]) == (78, "needs_database")
    _, *declarations = ended.json["error"]["message"].splitlines()
    assert [line.partition(":")[0] for line in declarations] == ["clean", "everywhere"]


# -- check ---------------------------------------------------------------------------------------------------------


def test_a_check_lists_what_needs_a_database(horae: Command, needy: Path) -> None:
    ended = horae("check", "needy:app", "--url", NO_SERVICE)

    *findings, count = ended.out.splitlines()
    assert ended.code == 6
    assert [line.split(": ")[:2] for line in findings] == [["error", "clean"], ["error", "everywhere"]]
    assert all("--db" in line for line in findings)
    assert count == "3 jobs, 2 findings"


def test_a_check_lists_what_needs_a_database_as_json(horae: Command, needy: Path) -> None:
    ended = horae("check", "needy:app", "--url", NO_SERVICE, "--json")

    document = ended.json["check"]
    found = [(finding["severity"], finding["where"]) for finding in document["findings"]]
    assert (ended.code, document["jobs"]) == (6, 3)
    assert found == [("error", "clean"), ("error", "everywhere")]


def test_a_check_finds_nothing_where_no_job_needs_a_database(horae: Command, project: Path) -> None:
    """The service is not asked, so that none need be there."""
    ended = horae("check", "tasks:app", "--url", NO_SERVICE, "--json")

    assert (ended.code, ended.json["check"]["findings"]) == (0, [])
    assert not (project / "app.db").exists()


def test_only_the_flag_makes_a_check_one_of_a_service(
    horae: Command, needy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORAE_URL", NO_SERVICE)

    assert horae("check", "needy:app").code == 0
    assert horae("check", "needy:app", "--url", "http://127.0.0.1:2").code == 6


# -- worker --------------------------------------------------------------------------------------------------------


def ask_to_end(worker: Process) -> int:
    worker.started.send_signal(signal.SIGTERM)
    return worker.ended().code


@pytest.mark.slow
def test_flags_beat_the_environment(
    served: Served, horae: Command, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = served.token("system", "admin", "worker")
    monkeypatch.setenv("HORAE_URL", NO_SERVICE)
    monkeypatch.setenv("HORAE_TOKEN", WRONG)
    monkeypatch.setenv("HORAE_DATABASE_URL", NO_DATABASE)
    enqueue = ("job", "enqueue", "add", "--app", "tasks:app", "--arg", "left=1", "--arg", "right=2", "--json")
    job_id = horae(*enqueue, "--url", served.url, "--token", token).json["id"]

    worker = start("worker", "tasks:app", "--url", served.url, "--token", token, "--json")
    started = worker.until("started")
    assert (started["url"], "database" in started) == (served.url, False)
    wait_until(lambda: verbs.get(served.world, job_id).state == "succeeded")
    assert ask_to_end(worker) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_a_worker_waits_for_a_service_that_cannot_be_reached(start: Start) -> None:
    worker = start("worker", "tasks:app", "--url", NO_SERVICE, "--json")

    assert worker.until("started")["url"] == NO_SERVICE
    worker.until_it_says("cannot be reached")
    assert ask_to_end(worker) == 0


@pytest.mark.slow
def test_a_wrong_token_is_reported_and_never_shown(served: Served, start: Start) -> None:
    """The worker goes on: an operator may renew the token, or the service may come back with its keys."""
    worker = start("worker", "tasks:app", "--url", served.url, "--token", WRONG, "--log-format", "json")
    assert worker.started.stderr is not None
    lines = list(until_warning(worker.started.stderr))

    assert "The token is not valid" in lines[-1]
    assert ask_to_end(worker) == 0
    assert WRONG not in "".join(lines)


def until_warning(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.startswith("{") and json.loads(line)["level"] == "warning":
            return
