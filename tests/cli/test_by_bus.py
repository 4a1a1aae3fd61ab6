"""``horae worker --nats``: a process that takes its jobs from a relay on a message bus and opens no database."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Process
from tests.cli.test_by_url import needy as needy
from tests.support.waiting import wait_until

Start = Callable[..., Process]
NO_SERVER = "nats://127.0.0.1:1"


@pytest.mark.parametrize("other", [("--db", "sqlite:///app.db"), ("--url", "http://127.0.0.1:1")])
def test_a_bus_and_another_place_are_one_too_many(other: tuple[str, str], horae: Command, project: Path) -> None:
    ended = horae("worker", "tasks:app", "--nats", NO_SERVER, *other, "--json")

    ended.assert_refused(2, "database_or_bus")


@pytest.mark.parametrize(
    ("arguments", "options"), [(("--tasks",), ["--tasks"]), (("--until-empty",), ["--until-empty"])]
)
def test_options_that_need_the_database_are_refused_by_name(
    arguments: tuple[str, ...], options: list[str], horae: Command, project: Path
) -> None:
    ended = horae("worker", "tasks:app", *arguments, "--nats", NO_SERVER, "--json")

    ended.assert_refused(78, "options_need_database", {"options": options})


def test_what_is_no_address_is_refused(horae: Command, project: Path) -> None:
    ended = horae("worker", "tasks:app", "--nats", "nonsense", "--json")

    assert (ended.code, ended.json["error"]["code"]) == (2, "invalid_input")


def test_a_worker_whose_jobs_need_a_database_does_not_start(horae: Command, needy: Path) -> None:
    ended = horae("worker", "needy:app", "--nats", NO_SERVER, "--json")

    assert (ended.code, ended.json["error"]["code"]) == (78, "needs_database")
    _, *declarations = ended.json["error"]["message"].splitlines()
    assert [line.partition(":")[0] for line in declarations] == ["clean", "everywhere"]


@pytest.mark.slow
@pytest.mark.server
def test_a_worker_runs_what_a_relay_hands_it_and_ends_in_order(
    horae: Command, start: Start, project: Path, nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"cli{abs(hash(str(project)))}"  # subjects and streams of this test alone
    monkeypatch.setenv("HORAE_NATS_PREFIX", own)
    monkeypatch.setenv("HORAE_NATS_STREAM", own)
    far = start("worker", "tasks:app", "--nats", nats_url.replace("//", "//ann:secret@"), "--lease", "10s", "--json")
    monkeypatch.setenv("HORAE_NATS", nats_url)
    monkeypatch.setenv("HORAE_NATS_DISPATCH", "1")
    near = start("worker", "tasks:app", "--queues", "elsewhere=1", "--json")
    add = ("job", "enqueue", "add", "--app", "tasks:app", "--arg", "left=1", "--arg", "right=2", "--json")
    job_id = horae(*add).json["id"]

    def job() -> dict[str, object]:
        shown: dict[str, object] = horae("job", "show", job_id, "--db", "sqlite:///app.db", "--json").json["job"]
        return shown

    wait_until(lambda: job()["state"] == "succeeded", "it is done", every=0.5)
    far.started.send_signal(signal.SIGTERM)
    ended = far.ended()
    near.started.send_signal(signal.SIGTERM)

    events = [json.loads(line) for line in ended.out.splitlines()]
    assert (ended.code, near.ended().code) == (0, 0), ended.err
    assert job()["result"] == 3
    assert events[0]["url"] == nats_url  # without what stands before the @
    assert events[-1] == {"event": "ended", "runs": {"succeeded": 1}}
