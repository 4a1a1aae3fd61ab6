"""What deploy/ holds works with this Horae: every command and option in it exists, and the update does S1-35.

Here ``systemctl`` and ``pip`` are stand-ins that write down how they were called; everything else is real.
"""

import configparser
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from sqlalchemy import text

from horae.runtime.worker.worker import WorkerSettings
from horae.settings import Settings, unknown_names
from horae.stores.opening import create_store_engine
from horae.stores.schema import KNOWN, VERSION_TABLE, inspect_schema, migrate
from tests.conftest import needs
from tests.support import programs
from tests.support.commands import commands_in, options_of

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
UPDATE = DEPLOY / "scripts" / "update.sh"
EXAMPLE = DEPLOY.parent / "examples" / "workers" / "worker.sh"


class Unit(configparser.RawConfigParser):
    """A unit file; a key that stands there several times has several lines."""

    def __init__(self, path: Path) -> None:
        super().__init__(strict=False, delimiters=("=",), comment_prefixes=("#",), dict_type=_Many)
        self.optionxform = str  # type: ignore[assignment,method-assign]
        self.read_string(path.read_text(encoding="utf-8"))

    def one(self, key: str) -> str:
        return self["Service"][key].splitlines()[-1]

    def all(self, key: str) -> list[str]:
        return self["Service"].get(key, "").splitlines()


class _Many(dict):  # type: ignore[type-arg]
    def __setitem__(self, key: object, value: object) -> None:
        if isinstance(value, list) and key in self:
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


def checked(arguments: list[str]) -> None:
    """A command line of ours: its words name a command, its options are known to it."""
    (words,) = commands_in("horae " + " ".join(arguments))
    assert arguments[: len(words)] == list(words)
    given = [each.partition("=")[0] for each in arguments if each.startswith("-")]
    assert set(given) <= options_of(*words), arguments


def seconds(span: str) -> float:
    return float(span.removesuffix("s"))


# -- units -------------------------------------------------------------------------------------------------------------


def test_there_are_two_units() -> None:
    assert [unit.name for unit in UNITS] == ["horae-server.service", "horae-worker@.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_exists(path: Path) -> None:
    program, *arguments = shlex.split(Unit(path).one("ExecStart"))

    assert program == "/opt/horae/venv/bin/horae"
    checked(arguments)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_gives_names_that_are_settings(path: Path) -> None:
    given = dict(each.split("=", 1) for each in Unit(path).all("Environment"))
    secret = {each.metadata["env"] for each in fields(Settings) if each.metadata["file"]} | {"HORAE_SECRET_KEY"}

    assert unknown_names(given) == {}
    assert {name.removesuffix("_FILE") for name in given} <= secret
    assert len(Unit(path).all("LoadCredential")) == len(given)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_waits_longer_than_a_worker_takes_to_end(path: Path) -> None:
    """In order: the grace, the grace of what was cancelled, and the last writes."""
    settings = WorkerSettings()
    longest = 2 * settings.grace.total_seconds() + 2 * settings.cancel_grace.total_seconds()

    assert seconds(Unit(path).one("TimeoutStopSec")) > longest


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_supervised_restarted_and_hardened(path: Path) -> None:
    unit = Unit(path)
    wanted = {
        "Type": "notify",
        "KillMode": "mixed",
        "Restart": "on-failure",
        "RestartForceExitStatus": "75",
        "NoNewPrivileges": "true",
        "ProtectSystem": "strict",
        "StateDirectory": "horae",
        "User": "horae",
    }

    assert {key: unit.one(key) for key in wanted} == wanted
    assert seconds(unit.one("WatchdogSec")) >= 30


def test_a_worker_is_ordered_after_all_it_needs_and_appends_to_two_files() -> None:
    """S1-34."""
    unit = Unit(DEPLOY / "systemd" / "horae-worker@.service")
    after = unit["Unit"]["After"]

    for needed in ("network-online.target", "postgresql.service", "mariadb.service", "orchestrator.service"):
        assert needed in after
    out, err = unit.one("StandardOutput"), unit.one("StandardError")
    assert out != err
    assert out.startswith("append:/var/log/horae/")
    assert err.startswith("append:/var/log/horae/")
    assert "--lease 120s" in unit.one("ExecStart")
    assert "%i=10" in unit.one("ExecStart")


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    """With a program that exists here in the place of ours, which is not installed."""
    analyze = needs(programs.SYSTEMD_ANALYZE)
    for path in UNITS:
        text = path.read_text(encoding="utf-8").replace("/opt/horae/venv/bin/horae", "/bin/true")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [analyze, "verify", *(str(tmp_path / path.name) for path in UNITS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    ours = [line for line in done.stderr.splitlines() if "horae" in line]
    assert (done.returncode, ours) == (0, [])


# -- the update --------------------------------------------------------------------------------------------------------


class Machine:
    """A machine to update: a folder, with stand-ins for what would change the one we are on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        self.path = folder / "path"
        (folder / "venv" / "bin").mkdir(parents=True)
        self.path.mkdir()
        self.stand_in(folder / "venv" / "bin" / "pip")
        self.has_worker(True)
        ours = folder / "venv" / "bin" / "horae"
        ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m horae "$@"\n')
        ours.chmod(0o755)
        (folder / "database-url").write_text(f"sqlite:///{folder}/horae.db\n")

    def stand_in(self, program: Path, more: str = "") -> None:
        program.write_text(f'#!/bin/sh\necho "{program.name} $*" >> {self.calls}\n{more}\n')
        program.chmod(0o755)

    def has_worker(self, installed: bool) -> None:
        self.stand_in(self.path / "systemctl", f'[ "$1" != cat ] || exit {0 if installed else 1}')

    def update(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
        answer = {
            "PATH": f"{self.path}{os.pathsep}{clean['PATH']}",
            "HORAE_VENV": str(self.folder / "venv"),
            "HORAE_CONFIG": str(self.folder),
            "HORAE_LOGS": str(self.folder / "logs"),
            "HORAE_COPIES": str(self.folder / "copies"),
            "HORAE_USER": "nobody-of-this-name",
        }
        return subprocess.run(
            [str(UPDATE), *arguments], env={**clean, **answer}, capture_output=True, text=True, timeout=60, check=False
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_update_installs_migrates_and_restarts_the_server_and_then_the_workers(machine: Machine) -> None:
    """S1-35."""
    done = machine.update("--package", "horae-1.whl")

    assert done.returncode == 0, done.stderr
    assert machine.called() == [
        "pip install --quiet --upgrade horae-1.whl",
        "systemctl daemon-reload",
        "systemctl restart horae-server.service",
        "systemctl cat horae-worker@.service",
        "systemctl restart horae-worker@*",
    ]
    assert (machine.folder / "horae.db").exists(), "the tables were made where the credential says"
    assert (machine.folder / "logs").is_dir()
    assert done.stderr.count("WARN") == 0


def test_an_update_copies_the_database_before_it_migrates(machine: Machine) -> None:
    """A migration cannot be taken back; the copy has the tables as they were."""
    database = create_store_engine(f"sqlite:///{machine.folder}/horae.db")
    migrate(database)
    with database.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{KNOWN[-2]}'"))

    done = machine.update("--package", "horae-1.whl")

    (copy,) = (machine.folder / "copies").glob("before-update-*.db")
    copied = create_store_engine(f"sqlite:///{copy}")
    assert done.returncode == 0, done.stderr
    assert (inspect_schema(copied).found, inspect_schema(database).found) == (KNOWN[-2], KNOWN[-1])
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_an_update_of_a_database_server_says_that_the_copy_is_yours_to_make(machine: Machine) -> None:
    (machine.folder / "database-url").write_text("postgresql://horae@nowhere.invalid/horae\n")

    done = machine.update("--dry-run")

    assert "WARN: no copy was made" in done.stderr
    assert "db migrate" in done.stdout


def test_an_update_installs_the_clone_that_it_lies_in(machine: Machine) -> None:
    """No index has the package."""
    machine.update()

    assert machine.called()[0] == f"pip install --quiet --upgrade {DEPLOY.parent}[server,postgres]"


def test_an_update_without_workers_warns_and_goes_on(machine: Machine) -> None:
    """S1-35."""
    machine.has_worker(False)

    done = machine.update()

    assert done.returncode == 0
    assert "WARN" in done.stderr
    assert "systemctl restart horae-server.service" in machine.called()
    assert not any("restart horae-worker" in call for call in machine.called())
    assert not (machine.folder / "logs").exists()


def test_a_dry_run_says_what_it_would_do_and_does_nothing(machine: Machine) -> None:
    done = machine.update("--dry-run")

    assert done.returncode == 0
    assert machine.called() == ["systemctl cat horae-worker@.service"]
    assert "+ systemctl restart horae-server.service" in done.stdout
    assert not (machine.folder / "horae.db").exists()


def test_a_step_that_fails_ends_the_update_before_anything_is_restarted(machine: Machine) -> None:
    machine.stand_in(machine.folder / "venv" / "bin" / "pip", "exit 1")

    done = machine.update()

    assert done.returncode != 0
    assert not any("restart" in call for call in machine.called())


def test_an_unknown_option_is_refused(machine: Machine) -> None:
    assert machine.update("--fast").returncode == 2
    assert machine.called() == []


def test_shellcheck_has_nothing_to_say() -> None:
    subprocess.run([needs(programs.SHELLCHECK), UPDATE, EXAMPLE], check=True)


def test_the_update_stops_at_the_first_failure() -> None:
    assert "set -euo pipefail" in UPDATE.read_text(encoding="utf-8").splitlines()


# -- containers --------------------------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each on one line."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
    joined = re.sub(r"\\\n\s*", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def test_the_image_is_not_root_checks_its_health_and_ends_on_sigterm() -> None:
    answer = dict(instructions())

    assert answer["USER"].split(":")[0].isdigit()
    assert answer["STOPSIGNAL"] == "SIGTERM"
    assert "/healthz" in answer["HEALTHCHECK"]
    assert answer["ENTRYPOINT"] == '["horae"]'
    checked(json.loads(answer["CMD"]))


def test_the_image_names_settings_that_exist_and_the_port_it_listens_on() -> None:
    answer = dict(instructions())
    given = dict(each.split("=", 1) for each in shlex.split(answer["ENV"]))

    assert unknown_names(given) == {}
    assert given["HORAE_PORT"] == answer["EXPOSE"]
    assert Settings.read(given).host == "0.0.0.0"


def test_what_the_image_copies_is_there() -> None:
    root = DEPLOY.parent
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]

    assert [source for sources in copied for source in sources if not (root / source).exists()] == []


def test_every_command_of_the_compose_file_exists() -> None:
    text = (DEPLOY / "docker" / "compose.yaml").read_text(encoding="utf-8")
    commands = [json.loads(each) for each in re.findall(r"^ +command: (\[.*\])$", text, re.MULTILINE)]

    assert [command[0] for command in commands] == ["db", "server", "worker"]
    for command in commands:
        checked(command)
    for words in re.findall(r"run --rm server (.*)$", text, re.MULTILINE):
        checked(shlex.split(words))


def test_the_compose_file_holds_no_password_and_only_files_that_it_says_how_to_make() -> None:
    text = (DEPLOY / "docker" / "compose.yaml").read_text(encoding="utf-8")
    files = re.findall(r"file: \./(secrets/\w+)", text)

    assert len(files) == 3
    assert all(f"> {file}" in text for file in files)
    assert unknown_names(dict.fromkeys(re.findall(r"^ +(HORAE_\w+):", text, re.MULTILINE), "x")) == {}
    assert "read_only: true" in text
    assert not re.search(r"PASSWORD: \S", text)


def test_the_jobs_of_the_compose_file_can_work(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "docker" / "jobs.py", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "horae", "check", "jobs:app"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


# -- logs --------------------------------------------------------------------------------------------------------------


def test_logs_are_copied_and_emptied_because_nobody_opens_them_again() -> None:
    text = (DEPLOY / "logrotate" / "horae").read_text(encoding="utf-8")

    assert "copytruncate" in text
    assert "postrotate" not in text
    assert "/var/log/horae/*.log" in text


def test_logrotate_understands_the_file(tmp_path: Path) -> None:
    text = (DEPLOY / "logrotate" / "horae").read_text(encoding="utf-8").replace("su horae horae", "")
    (tmp_path / "horae").write_text(text.replace("/var/log/horae", str(tmp_path)))
    (tmp_path / "worker.log").write_text("a line\n")

    logrotate = needs(programs.LOGROTATE)
    subprocess.run([logrotate, "--debug", "--state", tmp_path / "state", tmp_path / "horae"], check=True)


def test_the_readme_of_the_units_names_commands_that_exist() -> None:
    text = (DEPLOY / "systemd" / "README.md").read_text(encoding="utf-8")

    assert all(f"{unit.name}" in text for unit in UNITS)
    assert "database-url" in text
    for words in commands_in(text):
        options_of(*words)
    assert text.index("horae db migrate") < text.index("systemctl enable --now")
    assert "pip install 'horae" not in text, "no index has that package"
