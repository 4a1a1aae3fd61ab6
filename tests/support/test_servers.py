"""The servers the tests stand on: they come back with their data, and nothing is left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pymysql
import pytest
import redis
from sqlalchemy import Engine, create_engine, text

from tests.support import programs, servers
from tests.support.kinds import name_in
from tests.support.servers import MariaDBServer, PostgresServer, RedisServer, Server
from tests.support.watchdog import born_at

ROOT = Path(__file__).parents[2]

LEFT_ALONE = """
import sys, time
from tests.support.servers import Servers
servers = Servers()
print(servers.redis.pid, servers.postgres.pid, servers.ground.home, flush=True)
time.sleep(600)
"""


def until(question: Callable[[], bool], limit: float = 20) -> bool:
    deadline = time.monotonic() + limit
    while not question() and time.monotonic() < deadline:
        time.sleep(0.02)
    return question()


def fill(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("create table kept (number int)"))
        connection.execute(text("insert into kept values (42)"))


@pytest.mark.parametrize("kind", [PostgresServer, MariaDBServer])
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restarted_database_comes_back_with_its_data_at_the_same_place(
    kind: type[PostgresServer] | type[MariaDBServer], mode: servers.StopMode, own_server: Callable[..., Server]
) -> None:
    server = own_server(kind, durable=True)
    assert isinstance(server, PostgresServer | MariaDBServer)
    engine = create_engine(server.create_database())
    fill(engine)
    engine.dispose()

    server.restart(mode)

    with engine.connect() as connection:
        assert connection.scalar(text("select number from kept")) == 42
    engine.dispose()


def test_a_stopped_server_answers_nobody(own_server: Callable[..., Server]) -> None:
    server = own_server(RedisServer)

    server.stop("immediate")

    assert not server.is_running
    with pytest.raises(redis.ConnectionError):
        redis.Redis.from_url(server.url).ping()


@pytest.mark.parametrize("round_", [1, 2])
def test_each_test_gets_an_empty_database(database_url: str, round_: int) -> None:
    engine = create_engine(database_url)

    fill(engine)  # fails in the second round if the first left its table behind
    engine.dispose()


def test_a_forgotten_open_transaction_does_not_reach_the_next_test(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    forgotten = psycopg.connect(url.replace("+psycopg", ""))
    forgotten.execute("create table kept (number int)")

    postgres_server.release_database(url)
    reused = postgres_server.create_database()

    assert name_in(reused) != name_in(url)
    with pytest.raises(psycopg.OperationalError):
        forgotten.execute("select 1")
    forgotten.close()
    postgres_server.release_database(reused)


def test_a_forgotten_open_transaction_does_not_block_the_drop(mysql_server: MariaDBServer) -> None:
    url = mysql_server.create_database()
    forgotten = pymysql.connect(host="127.0.0.1", port=mysql_server.port, user="root", database=name_in(url))
    with forgotten.cursor() as cursor:
        cursor.execute("create table kept (number int)")
        cursor.execute("select * from kept")

    mysql_server.release_database(url)

    with pytest.raises(pymysql.OperationalError), forgotten.cursor() as cursor:
        cursor.execute("select 1")


@pytest.mark.server
@pytest.mark.usefixtures("postgres_server", "redis_server")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_servers_end_with_the_process_that_started_them(ending: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", LEFT_ALONE], cwd=ROOT, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    )
    assert owner.stdout is not None
    redis_pid, postgres_pid, home = owner.stdout.readline().split()

    owner.send_signal(ending)
    owner.wait()

    assert until(lambda: born_at(int(redis_pid)) is None)
    assert until(lambda: born_at(int(postgres_pid)) is None)
    assert until(lambda: not Path(home).exists())
    owner.stdout.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could run a server as root")
def test_a_server_never_runs_as_root(postgres_server: PostgresServer) -> None:
    assert Path(f"/proc/{postgres_server.pid}").stat().st_uid != 0


NOWHERE = programs.Program("Nowhere", ("no-such-server",), (), "nowhere-server", (1,), r"(\d+)")


def test_a_missing_server_names_the_command_that_installs_it() -> None:
    with pytest.raises(programs.ServerMissing, match=r"Nowhere 1 or newer is not installed.* install .*nowhere"):
        programs.find(NOWHERE)


def test_a_server_that_is_too_old_counts_as_missing() -> None:
    ancient = programs.Program("Python", (Path(sys.executable).name,), (), "python3", (99,), r"Python (\d+)")

    assert programs.missing([ancient]) == [ancient]


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_a_test_without_its_server_is_skipped_for_a_person_and_failed_in_ci(
    ci: str, outcome: str, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(
        "from dataclasses import replace\n"
        "from tests.support.kinds import RedisServer\n"
        "RedisServer.program = replace(RedisServer.program, names=('no-such-server',))\n"
        "from tests.conftest import *\n"
    )
    (tmp_path / "test_it.py").write_text("def test_it(redis_url): pass\n")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert outcome in done.stdout
    assert "Redis 6.2 or newer is not installed" in done.stdout


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 failed")])
def test_a_test_without_its_tool_is_skipped_for_a_person_and_failed_in_ci(
    ci: str, outcome: str, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(
        "from tests.conftest import needs\n"
        "from tests.support.programs import Program\n"
        "def test_it():\n"
        "    needs(Program('Nowhere', ('no-such-tool',), (), 'nowhere', (1,), r'(\\d+)'))\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert outcome in done.stdout
    assert "Nowhere 1 or newer is not installed" in done.stdout


def test_programs_that_tests_need_are_looked_for_with_needs_and_nowhere_else() -> None:
    """A skip of its own making would stay a skip where CI is set."""
    own = re.compile(r"importorskip|skipif\(\s*shutil\.which|which\([^)]*\) is None")
    found = [path for path in (ROOT / "tests").rglob("test_*.py") if own.search(path.read_text(encoding="utf-8"))]

    assert [path for path in found if path != Path(__file__)] == []


def test_only_what_is_chosen_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.support.repeating import pytest_generate_tests\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('case', ['first', 'second'])\n"
        "def test_one(case): pass\n"
        "def test_other(): pass\n"
    )
    options = ("-p", "no:cacheprovider", "--rootdir", tmp_path, "--count", "7", "-k", "one and second")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "7 passed, 8 deselected" in done.stdout  # seven of the case that was not meant, and one of the other test
