"""Planted faults: the doctor finds each, names it in a sentence, and says what to type."""

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from horae import Horae
from horae.actions.access.tokens import create_token
from horae.actions.attention import inbox, lanes
from horae.actions.budgets import budgets
from horae.actions.budgets.repair import settle_leftovers
from horae.actions.jobs import claims, endings, jobs, queues
from horae.actions.jobs.requests import Request
from horae.actions.schedules import schedules
from horae.core.jobs.job import Lease
from horae.core.jobs.retry import Retry
from horae.core.schedules.schedule import Schedule
from horae.doctor import machine
from horae.doctor.bundle import redact
from horae.doctor.engine import limits
from horae.ports.access import Sealed
from horae.ports.claims import Claim
from horae.ports.workers import Node
from horae.ports.world import World
from horae.runtime.chores.janitor import CHORES
from horae.stores.databases.durability import has_wal_reset_bug
from horae.stores.opening import create_store_engine
from horae.testing.clock import VirtualClock
from tests.cli.conftest import Command, Ended
from tests.support.commands import commands_in
from tests.support.mounting import on_small_disk
from tests.support.proxy import Proxy

LIVE = Path(".horae/horae.db")
ROOT = Path(__file__).parents[2]
AGO = timedelta(minutes=10)


@pytest.fixture
def world(environment: Path) -> Iterator[World]:
    with Horae(max_payload_bytes=100_000) as app:
        yield app.world


def worker_seen(world: World, *served: str) -> None:
    now = world.clock.now()
    node = Node("host:1:abc", "host", 1, "0", now, now, dict.fromkeys(served, 1))
    world.store.transact(lambda tx: tx.nodes.put(node))


def found(ended: Ended, check: str) -> dict[str, Any]:
    """The one finding of a check that is not well."""
    (one,) = [each for each in ended.json["doctor"]["checks"] if each["check"] == check and each["level"] != "ok"]
    return one  # type: ignore[no-any-return]


def levels(ended: Ended) -> dict[str, str]:
    return {each["check"]: each["level"] for each in ended.json["doctor"]["checks"]}


def test_a_healthy_installation_has_no_problem(world: World, horae: Command) -> None:
    worker_seen(world, "default")

    ended = horae("doctor", "--json")

    assert ended.code == 0
    assert ended.json["doctor"]["healthy"] is True
    answer = levels(ended)
    well = {"versions", "extras", "settings", "disk", "permissions", "database", "migrations", "durability", "clock"}
    well |= {"workers", "due", "leases", "dead", "queues", "schedules", "zones", "tokens"}
    assert {check for check in answer if answer[check] == "ok"} >= well
    assert {"tzdata", "sqlite", "port"} <= set(answer)


def test_every_extra_is_known_by_its_packages() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    of_users = {name: needs for name, needs in declared.items() if name not in ("dev", "bench", "site")}

    assert machine.EXTRAS.keys() == of_users.keys()
    for name, packages in machine.EXTRAS.items():
        needed = {re.split(r"[^\w-]", need)[0] for need in of_users[name]}
        assert set(packages) <= needed, name


def test_looking_changes_nothing(world: World, horae: Command) -> None:
    before = world.store.read(lambda tx: tx.audit.find(object_id=None, limit=10, before=None))
    names = sorted(file.name for file in LIVE.parent.iterdir())

    horae("doctor")

    assert world.store.read(lambda tx: tx.audit.find(object_id=None, limit=10, before=None)) == before
    assert sorted(file.name for file in LIVE.parent.iterdir()) == names


def test_people_read_one_line_for_each_check_and_the_command_below_it(world: World, horae: Command) -> None:
    queues.pause_queue(world, "mail", reason="moving")

    ended = horae("doctor")

    lines = ended.out.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("warning  queues"))
    assert "moving" in lines[place]
    assert lines[place + 1].strip() == "→ horae queue resume mail"
    assert "checks:" in lines[-1]


# -- one fault after the other -----------------------------------------------------------------------------------------


def test_asking_about_a_database_that_is_not_there_leaves_nothing_behind(environment: Path, horae: Command) -> None:
    horae("doctor")

    assert list(environment.iterdir()) == []


def test_no_database(environment: Path, horae: Command) -> None:
    ended = horae("doctor", "--json")

    assert ended.code == 6
    assert found(ended, "database")["mend"] == "horae db migrate"
    assert not LIVE.exists()


@pytest.mark.parametrize(
    ("version", "mend"),
    [("0003", "horae db export --out FILE  (with the older Horae)"), ("9999", "pip install --upgrade horae")],
)
def test_tables_of_another_version(version: str, mend: str, world: World, horae: Command) -> None:
    with sqlite3.connect(LIVE) as connection:
        connection.execute("UPDATE horae_version SET version_num = ?", [version])
    connection.close()

    ended = horae("doctor", "--json")

    assert ended.code == 6
    assert found(ended, "migrations")["mend"] == mend


def test_a_file_that_is_no_database(environment: Path, horae: Command) -> None:
    LIVE.parent.mkdir()
    LIVE.write_text("no database, but long enough to be taken for one" * 100)

    ended = horae("doctor", "--json")

    assert ended.code == 6
    assert levels(ended)["database"] == "problem"


def test_a_file_that_everybody_can_read(horae: Command) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        url = f"sqlite:///{folder}/horae.db"
        horae("db", "migrate", "--db", url)
        private = levels(horae("doctor", "--json", "--db", url))["permissions"]
        Path(folder, "horae.db").chmod(0o644)

        answer = found(horae("doctor", "--json", "--db", url), "permissions")

    assert private == "ok"
    assert answer["mend"] == f"chmod o-rwx {folder}/horae.db*"


def test_a_misspelled_setting(world: World, horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_DATABASEURL", "x")

    answer = found(horae("doctor", "--json"), "settings")

    assert "HORAE_DATABASE_URL" in answer["text"]
    assert answer["mend"] == "unset HORAE_DATABASEURL"


def test_a_database_that_forgets_after_a_power_cut(
    world: World, horae: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The durability class is printed (reliability-security.md, a3)."""
    monkeypatch.setenv("HORAE_SYNCHRONOUS", "NORMAL")

    answer = found(horae("doctor", "--json"), "durability")

    assert "crash-safe" in answer["text"]
    assert answer["mend"] == "unset HORAE_SYNCHRONOUS"


def test_a_queue_that_nobody_serves(world: World, horae: Command) -> None:
    worker_seen(world, "default")
    jobs.enqueue(world, Request("send", queue="mail", run_at=world.clock.now() - AGO))
    jobs.enqueue(world, Request("send", queue="default", run_at=world.clock.now() - AGO))

    ended = horae("doctor", "--json")

    assert ended.code == 6
    assert "No worker serves the queue mail" in found(ended, "workers")["text"]
    assert found(ended, "workers")["mend"] == "horae worker MODULE:APP --queues mail"
    assert levels(ended)["due"] == "warning"


def test_nobody_at_work(world: World, horae: Command) -> None:
    ended = horae("doctor", "--json")

    assert ended.code == 0
    assert found(ended, "workers")["level"] == "warning"


def test_a_lease_that_nobody_takes_back(world: World, horae: Command) -> None:
    made = jobs.enqueue(world, Request("send", run_at=world.clock.now() - 2 * AGO))
    world.store.claim(Claim("default", 1, "gone", timedelta(seconds=30)), now=world.clock.now() - AGO)

    ended = horae("doctor", "--json")

    assert ended.code == 6
    assert made.id in found(ended, "leases")["text"]


def keep(world: World, *, ago: timedelta) -> None:
    """Do all chores that some process does whatever the store says, as if so long ago."""
    now = world.clock.steady() - ago
    for chore in (each for each in CHORES if each.when is None):
        world.store.take_chore(
            chore.name, token="t", holder="server", every=chore.every, lease=timedelta(seconds=30), now=now
        )
        world.store.end_chore(chore.name, "t", due_at=now + chore.every, done_at=now)


def test_chores_that_no_process_does(world: World, horae: Command) -> None:
    """Only workers over HTTP and servers with --no-chores are left."""
    keep(world, ago=timedelta(minutes=45))
    overdue = found(horae("doctor", "--json"), "chores")
    queues.pause_queue(world, "mail", actor="ann")
    waiting = horae("doctor", "--json")

    assert (overdue["level"], overdue["mend"]) == ("warning", "horae server")
    assert "“repair what Horae keeps”" in overdue["text"]
    assert "should have begun 0:15:00 ago" in overdue["text"]
    assert "--no-chores" in overdue["text"]
    assert (waiting.code, found(waiting, "chores")["level"]) == (6, "problem")
    assert "audit entries wait to be sealed" in found(waiting, "chores")["text"]


def test_chores_that_are_done_and_chores_that_are_not_needed_yet(world: World, horae: Command) -> None:
    assert levels(horae("doctor", "--json"))["chores"] == "ok"
    queues.pause_queue(world, "mail", actor="ann")
    never = found(horae("doctor", "--json"), "chores")
    keep(world, ago=timedelta(minutes=30, seconds=30))

    assert (never["level"], "has done chores yet" in never["text"]) == ("warning", True)
    assert levels(horae("doctor", "--json"))["chores"] == "ok"


def test_a_dead_letter(world: World, horae: Command) -> None:
    made = jobs.enqueue(world, Request("send"))
    world.store.claim(Claim("default", 1, "w", timedelta(seconds=30)), now=world.clock.now())
    endings.fail(world, made.id, 1, "no", final=True)

    assert found(horae("doctor", "--json"), "dead")["mend"] == "horae job list --state dead"


def test_a_job_that_waits_for_ever_for_a_dead_one(world: World, horae: Command) -> None:
    parent = jobs.enqueue(world, Request("send", retry=Retry.none()))
    child = jobs.enqueue(world, Request("send", after=(parent.id,), on_parent_dead="wait"))
    assert levels(horae("doctor", "--json"))["parents"] == "ok"
    world.store.claim(Claim("default", 1, "w", timedelta(seconds=30)), now=world.clock.now())
    endings.fail(world, parent.id, 1, "no")

    answer = found(horae("doctor", "--json"), "parents")

    assert f"{child.id} (for {parent.id})" in answer["text"]
    assert (answer["level"], answer["mend"]) == ("warning", f"horae job revive {parent.id}")


def test_a_wait_without_its_timeout(world: World, horae: Command) -> None:
    inbox.add(world, "ops", "report", delay=timedelta(hours=1))
    assert levels(horae("doctor", "--json"))["promises"] == "ok"
    with sqlite3.connect(LIVE) as connection:
        connection.execute("DELETE FROM horae_jobs")
    connection.close()

    ended = horae("doctor", "--json")

    answer = found(ended, "promises")
    assert ended.code == 6
    assert "t1 has no job for its start" in answer["text"]
    assert answer["mend"] == "horae worker MODULE:APP"
    assert horae("attention", "verify").code == 6


def test_a_lane_with_tasks_that_no_process_drives(horae: Command, world: World) -> None:
    old = world.clock.now() - timedelta(minutes=6)
    for lane, owner in (("ops", "system"), ("mine", "alice"), ("busy", "system")):
        inbox.add(replace(world, clock=VirtualClock(old)), lane, "report", owner=owner)
    inbox.add(world, "fresh", "report")
    driver = lanes.acquire(world, "busy", "d", lease=timedelta(minutes=1), kinds=("report",))

    answer = found(horae("doctor", "--json"), "lanes")

    assert driver is not None
    assert answer["text"].endswith("no process drives their lanes: ops, mine of alice.")
    assert (answer["level"], answer["mend"]) == ("warning", "horae attention serve MODULE:AGENT")


def test_children_of_an_ended_job_that_nobody_has_dealt_with(world: World, horae: Command) -> None:
    parent = jobs.enqueue(world, Request("send"))
    jobs.enqueue_many(world, [Request("send", after=(parent.id,)) for _ in range(150)])
    jobs.cancel(world, parent.id)

    answer = found(horae("doctor", "--json"), "parents")

    assert "50 jobs still to be ended" in answer["text"]
    assert answer["mend"] == "horae worker MODULE:APP"


def test_a_tenants_job_whose_handler_is_not_open_to_tenants(world: World, horae: Command) -> None:
    for _ in range(2):
        jobs.enqueue(world, Request("send", owner="alice", queue="mail"))
    world.store.claim(Claim("mail", 1, "w", timedelta(seconds=30)), now=world.clock.now())

    answer = found(horae("doctor", "--json"), "tenants")

    assert (answer["level"], answer["mend"]) == ("warning", '@app.job("send", tenants=True)')
    assert "2 jobs of tenants held in the queue mail: the handler send is not open to tenants." in answer["text"]


def test_a_schedule_that_is_inactive_with_its_reason(world: World, horae: Command) -> None:
    schedules.create(world, Schedule("nightly", "report", "cron", "0 3 * * *"))
    with sqlite3.connect(LIVE) as connection:
        connection.execute("UPDATE horae_schedules SET inactive = 'no handler report is known'")
    connection.close()

    answer = found(horae("doctor", "--json"), "schedules")

    assert "nightly" in answer["text"]
    assert "no handler report is known" in answer["text"]


def test_a_schedule_that_is_due_and_that_nobody_fires(world: World, horae: Command) -> None:
    """S1-36: next_run_at is past and enabled is true."""
    schedules.create(world, Schedule("nightly", "report", "cron", "0 3 * * *"))
    with sqlite3.connect(LIVE) as connection:
        connection.execute("UPDATE horae_schedules SET next_due_at = 1")
    connection.close()

    ended = horae("doctor", "--json")

    assert ended.code == 6
    assert "nightly" in found(ended, "schedules")["text"]


def test_a_schedule_computed_with_an_older_zone_database(world: World, horae: Command) -> None:
    schedules.create(world, Schedule("nightly", "report", "cron", "0 3 * * *", "Europe/Berlin"))
    with sqlite3.connect(LIVE) as connection:
        connection.execute("UPDATE horae_schedules SET tzdata = '2019a'")
    connection.close()

    answer = found(horae("doctor", "--json"), "zones")

    assert "2019a" in answer["text"]
    assert answer["mend"].startswith("systemctl restart")


def test_a_zone_database_that_is_old(world: World, horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "zone_database_version", lambda: "2019a")

    assert "2019a" in found(horae("doctor", "--json"), "tzdata")["text"]


def test_a_token_that_ends_soon(world: World, horae: Command) -> None:
    earlier = replace(world, clock=VirtualClock(world.clock.now() - timedelta(days=50)))
    token, text = create_token(earlier, owner="alice", scopes=["tasks"], expires_in=timedelta(days=60))
    create_token(world, owner="bob", scopes=["tasks"], expires_in=timedelta(days=60))

    ended = horae("doctor", "--json")

    assert token.token_id in found(ended, "tokens")["text"]
    assert text not in ended.out


def test_the_token_of_a_console_link_ends_as_it_was_meant_to(world: World, horae: Command) -> None:
    assert horae("console", "link").code == 0

    assert levels(horae("doctor", "--json"))["tokens"] == "ok"


def test_a_service_that_listens_to_others_while_nobody_has_a_token(
    world: World, horae: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORAE_HOST", "0.0.0.0")
    monkeypatch.setenv("HORAE_PORT", "0")

    before = horae("doctor", "--json")
    create_token(world, owner="system", scopes=["admin"], expires_in=None)

    assert found(before, "door")["mend"] == "horae token create --owner system --scopes admin"
    assert levels(horae("doctor", "--json"))["door"] == "ok"


def test_a_secret_without_its_key(world: World, horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from horae.outgoing.encryption import KeySealer

    now = world.clock.now()
    key = bytes(range(32))
    sealed = Sealed("hook", KeySealer(key).seal("alice", "hook", "whsec_x"), None, None, now, now)
    world.store.transact(lambda tx: tx.secrets.put("alice", sealed))

    without = horae("doctor", "--json")
    monkeypatch.setenv("HORAE_SECRET_KEY", bytes(32).hex())
    wrong = horae("doctor", "--json")
    monkeypatch.setenv("HORAE_SECRET_KEY", key.hex())
    right = horae("doctor", "--json")

    assert (without.code, wrong.code) == (6, 6)
    assert "HORAE_SECRET_KEY" in found(without, "secrets")["text"]
    assert levels(right)["secrets"] == "ok"


def test_a_port_that_somebody_else_has(world: World, horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("HORAE_PORT", str(taken.getsockname()[1]))

        answer = found(horae("doctor", "--json"), "port")

    assert "could not listen" in answer["text"]


@pytest.mark.parametrize(("free", "level"), [(10**7, "problem"), (5 * 10**8, "warning")])
def test_a_disk_that_is_nearly_full(
    free: int, level: str, world: World, horae: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12 - free, free))

    assert found(horae("doctor", "--json"), "disk")["level"] == level


def test_tasks_that_ask_an_orchestrator_which_nobody_named(
    world: World, horae: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ORCHESTRATOR_URL", "FUN_AGENT_SERVICE_URL"):
        monkeypatch.delenv(name, raising=False)
    schedules.create(world, Schedule("ask", "dispatch", "cron", "0 3 * * *"))

    assert "ORCHESTRATOR_URL" in found(horae("doctor", "--json"), "orchestrator")["text"]


@pytest.mark.parametrize(
    ("version", "has"),
    [((3, 40, 1), True), ((3, 51, 2), True), ((3, 51, 3), False), ((3, 52, 0), True), ((3, 53, 0), False)],
)
def test_the_sqlite_versions_that_lose_pages_are_known(version: tuple[int, ...], has: bool) -> None:
    """Finding 4 of reliability-security.md."""
    assert has_wal_reset_bug(version) is has


def test_an_application_that_cannot_work(project: Path, world: World, horae: Command) -> None:
    (project / "broken.py").write_text("from horae import Horae\napp = Horae()\nraise RuntimeError('no')\n")

    well, broken = horae("doctor", "tasks:app", "--json"), horae("doctor", "broken:app", "--json")

    assert levels(well)["application"] == "ok"
    assert broken.code == 6
    assert found(broken, "application")["mend"] == "horae check broken:app"


def test_a_check_that_fails_itself_is_a_finding_and_not_the_end(
    world: World, horae: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(_: object) -> Any:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(shutil, "disk_usage", break_off)

    ended = horae("doctor", "--json")

    assert "could not be made" in found(ended, "disk")["text"]
    assert levels(ended)["migrations"] == "ok"


# -- servers -----------------------------------------------------------------------------------------------------------


def test_a_server_that_is_down_and_its_password_is_not_shown(horae: Command) -> None:
    ended = horae("doctor", "--json", "--db", "postgresql://me:hidden@127.0.0.1:1/none")

    assert ended.code == 6
    assert found(ended, "database")["mend"] == "systemctl start postgresql"
    assert "hidden" not in ended.out + ended.err


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_a_server_is_asked_for_its_clock_its_promise_and_its_hints(
    kind: str, request: pytest.FixtureRequest, horae: Command
) -> None:
    url: str = request.getfixturevalue(f"{kind}_database_url")
    horae("db", "migrate", "--db", url)

    ended = horae("doctor", "--json", "--db", url)

    answer = levels(ended)
    assert answer["clock"] == "ok"
    assert answer["database"] == answer["migrations"] == "ok"
    assert answer["durability"] != "ok", "the servers of the tests run without fsync, and that is seen"
    assert answer.get("hints") == ("ok" if kind == "postgres" else None)


# -- mending -----------------------------------------------------------------------------------------------------------


def test_every_command_of_ours_that_mends_exists(world: World, horae: Command, environment: Path) -> None:
    source = Path(machine.__file__).parent
    answer = "\n".join(
        file.read_text() for file in [*source.glob("*.py"), source.parent / "cli" / "installation" / "doctor.py"]
    )

    assert commands_in(answer)
    for words in commands_in(answer):
        assert horae(*words, "--help").code == 0, words


def test_a_command_names_the_application_that_was_asked_about(project: Path, world: World, horae: Command) -> None:
    assert found(horae("doctor", "tasks:app", "--json"), "workers")["mend"] == "horae worker tasks:app"


def test_a_command_names_the_database_that_was_asked_about(horae: Command, environment: Path) -> None:
    ended = horae("doctor", "--json", "--db", "sqlite:///other.db")

    assert found(ended, "database")["mend"] == "horae db migrate --db sqlite:///other.db"


# -- the bundle --------------------------------------------------------------------------------------------------------

CANARY = "canary-4711"


def test_a_bundle_holds_no_secret(world: World, horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _, token = create_token(world, owner=f"owner-{CANARY}", scopes=["tasks"], title=f"title-{CANARY}")
    made = jobs.enqueue(world, Request("dispatch", {"card": f"payload-{CANARY}"}, owner=f"owner-{CANARY}"))
    world.store.claim(Claim("default", 1, "w", timedelta(seconds=30)), now=world.clock.now())
    claims.progress(world, Lease(int(made.id[4:]), 1), {"step": f"progress-{CANARY}"})
    endings.fail(world, made.id, 1, f"error-{CANARY}", final=True)
    schedules.create(world, Schedule(f"key-{CANARY}", "report", "cron", "0 3 * * *", payload={"a": f"load-{CANARY}"}))
    queues.pause_queue(world, "mail", reason=f"reason password={CANARY}")
    monkeypatch.setenv("HORAE_TOKEN", token)
    monkeypatch.setenv("HORAE_JWT_SECRET", f"jwt-{CANARY}-0123456789012345678901234567890123456789")
    monkeypatch.setenv("HORAE_PUBLIC_URL", f"https://me:{CANARY}@example.test")

    ended = horae("doctor", "--support-bundle", "bundle.zip", "--json")

    with zipfile.ZipFile("bundle.zip") as bundle:
        parts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    assert ended.code == 0, ended.err
    assert {"doctor.json", "versions.json", "settings.json", "store.json"} == set(parts)
    assert all(json.loads(part) for part in parts.values())
    assert CANARY not in "".join(parts.values())
    assert token not in "".join(parts.values())
    assert os.stat("bundle.zip").st_mode & 0o077 == 0
    assert json.loads(parts["store.json"])["rows"]["horae_jobs"] == 1


def test_a_bundle_can_be_made_without_a_database_and_hides_its_password(horae: Command, environment: Path) -> None:
    url = f"postgresql://me:{CANARY}@127.0.0.1:1/none"

    horae("doctor", "--support-bundle", "bundle.zip", "--db", url)

    with zipfile.ZipFile("bundle.zip") as bundle:
        assert all(CANARY.encode() not in bundle.read(name) for name in bundle.namelist())


def test_a_bundle_does_not_replace_a_file(world: World, horae: Command) -> None:
    Path("bundle.zip").write_text("mine")

    assert horae("doctor", "--support-bundle", "bundle.zip").code == 2
    assert Path("bundle.zip").read_text() == "mine"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{CANARY}@host/db",
        f"Authorization: {CANARY}",
        f"password={CANARY}",
        f'"api_key": "{CANARY}"',
        f"a {CANARY} that was named",
    ],
)
def test_what_looks_like_a_secret_is_made_unreadable(text: str) -> None:
    assert CANARY not in redact(text, CANARY if "named" in text else "")


# -- a full disk -------------------------------------------------------------------------------------------------------

FULL_DISK = """
import json, subprocess, sys
from pathlib import Path
from horae import Horae
from horae.actions.jobs.jobs import enqueue
from horae.actions.jobs.requests import Request

folder, closed = Path(sys.argv[1]), sys.argv[2] == "closed"
app = Horae(f"sqlite:///{folder}/horae.db")
enqueue(app.world, Request("a"))
if closed:
    app.close()
for size in (65536, 1024, 1):
    try:
        with open(folder / "ballast", "ab", buffering=0) as file:
            while True:
                file.write(b"x" * size)
    except OSError:
        continue
command = [sys.executable, "-m", "horae", "doctor", "--json", "--db", f"sqlite:///{folder}/horae.db"]
ended = subprocess.run(command, capture_output=True, text=True)
print(json.dumps({"code": ended.returncode, "said": json.loads(ended.stdout)["doctor"]["checks"]}))
"""


@pytest.mark.parametrize("how", ["open", "closed"])
def test_a_full_disk_is_called_by_its_name(tmp_path: Path, how: str) -> None:
    """A file system of four mebibytes, in a mount namespace of its own; in use, or to be opened anew."""
    program = tmp_path / "full_disk.py"
    program.write_text(FULL_DISK)
    (tmp_path / "disk").mkdir()
    run = f"exec {sys.executable} {program} {tmp_path}/disk {how}"
    ended = subprocess.run(
        on_small_disk(tmp_path / "disk", "4m", run),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    answer = json.loads(ended.stdout)
    said = {each["check"]: each for each in answer["said"] if each["level"] == "problem"}
    assert answer["code"] == 6
    assert "Nothing can be stored" in said["disk"]["text"]
    assert said["disk"]["mend"].startswith("du -xh")
    if how == "closed":  # not even a look is possible: SQLite has no room for the index of its log
        assert "no room left" in said["database"]["text"]
        assert said["database"]["mend"].startswith("du -xh")


# -- an engine of the application's own --------------------------------------------------------------------------------


def test_an_engine_of_ones_own_without_limits_is_warned_of(postgres_database_url: str, mysql_database_url: str) -> None:
    limited = {"read_timeout": 30, "write_timeout": 30}
    for url, options, level in [
        (postgres_database_url, {}, "warning"),
        (mysql_database_url, {}, "warning"),
        (mysql_database_url, limited, "ok"),
        ("sqlite://", {}, "ok"),
    ]:
        engine = create_engine(url, connect_args=options)
        [finding] = limits(engine, "shop:app")
        engine.dispose()

        assert (finding.check, finding.level) == ("timeouts", level), url


def test_an_engine_of_ours_has_limits(postgres_database_url: str, mysql_database_url: str) -> None:
    for url in (postgres_database_url, mysql_database_url):
        engine = create_store_engine(url)
        assert [finding.level for finding in limits(engine, "shop:app")] == ["ok"]
        engine.dispose()


def test_an_engine_that_never_answers_does_not_keep_the_doctor_waiting(postgres_database_url: str) -> None:
    with Proxy(postgres_database_url) as proxy:
        proxy.swallow()
        [finding] = limits(create_engine(proxy.url), "shop:app", patience=0.2)

    assert "gave no connection within 0.2 seconds" in finding.text


def test_the_doctor_of_an_application_looks_at_its_engine(environment: Path, horae: Command) -> None:
    (environment / "shop_with_engine.py").write_text(
        "from horae import Horae, prepare_sqlite\n"
        "from sqlalchemy import create_engine\n"
        "app = Horae(prepare_sqlite(create_engine('sqlite:///.horae.db')))\n"
    )
    ended = horae("doctor", "shop_with_engine:app", "--json")

    assert levels(ended)["timeouts"] == "ok"


def test_a_reservation_that_nothing_ends_and_an_exceeded_budget_are_named(horae: Command, world: World) -> None:
    budgets.set_budget(world, "llm", "tokens", 100)
    jobs.enqueue(world, Request("ask", budget="llm", cost={"tokens": 60}))
    [job] = claims.pull(world, worker_id="w")
    worker_seen(world, "default")
    assert [
        each["level"] for each in horae("doctor", "--json").json["doctor"]["checks"] if each["check"] == "budgets"
    ] == ["ok"]

    endings.ack(replace(world, rules=()), job.id, job.token)
    assert "1 reservations" in found(horae("doctor", "--json"), "budgets")["text"]
    assert settle_leftovers(world) == 1
    budgets.adjust(world, "llm", "tokens", 60, reason="by hand")

    exceeded = found(horae("doctor", "--json"), "budgets")
    assert "llm:tokens:day of system was exceeded by 20" in exceeded["text"]
    assert exceeded["mend"] == "horae budget show llm tokens"
