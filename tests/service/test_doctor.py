"""The doctor inside a running process: what it finds, within which time, and for whom."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import horae
from horae.actions.jobs import queues
from horae.doctor.in_process import examine_world
from horae.errors import Forbidden, NotAllowed
from horae.server.process import options_from
from horae.service.options import Options
from horae.settings import Settings
from tests.support.serving import Served, serving


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    opened: list[Served] = []
    options = options_from(Settings.read({}), lambda: opened[0].world)
    with serving(sqlite_database_url, options) as running:
        opened.append(running)
        yield running


def test_a_server_says_what_is_not_well(served: Served) -> None:
    queues.pause_queue(served.world, "mail", reason="repairs")
    with horae.Client(served.url, served.token("system", "admin")) as client:
        seen = client.admin.doctor()
        again = client.admin.doctor()

    assert seen.complete
    assert {"versions", "settings", "durability", "workers", "queues"} <= {each.check for each in seen.findings}
    assert "port" not in {each.check for each in seen.findings}
    assert any("mail" in each.text for each in seen.findings)
    assert again == seen, "it is kept for some seconds"


def test_only_an_operator_asks_the_doctor(served: Served) -> None:
    for owner, scopes in (("system", ("read",)), ("alice", ("tasks", "worker", "read"))):
        with horae.Client(served.url, served.token(owner, *scopes)) as client, pytest.raises(Forbidden):
            client.admin.doctor()


def test_a_server_that_does_not_offer_it_says_so(sqlite_database_url: str) -> None:
    with (
        serving(sqlite_database_url, Options(version="test")) as running,
        horae.Client(running.url, running.token("system", "admin")) as client,
        pytest.raises(NotAllowed),
    ):
        client.admin.doctor()
    assert options_from(replace(Settings.read({}), server_doctor=False), lambda: running.world).doctor is None


def test_no_check_begins_after_its_time(served: Served) -> None:
    seen = examine_world(served.world, Settings.read({}), os.environ, limit=timedelta(0))

    assert (seen.complete, seen.findings, seen.healthy) == (False, (), True)


def test_a_shell_asks_the_doctor_of_a_server(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from horae.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HORAE_TOKEN", served.token("system", "admin"))
    code = main(["doctor", "--url", served.url])

    assert code == 0
    assert "durability" in capsys.readouterr().out
    assert not (tmp_path / ".horae").exists(), "it opens no database of its own"
