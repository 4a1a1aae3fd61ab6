"""Fixtures that give tests a database or a server.

| Fixture | Scope | Gives |
|---|---|---|
| `database_url` | test | an empty database, the test runs on `sqlite`, `postgres` and `mysql` |
| `sqlite_database_url`, `postgres_database_url`, `mysql_database_url` | test | the same for one of them |
| `empty_redis_url` | test | the shared Redis, emptied |
| `postgres_url`, `mysql_url`, `redis_url`, `nats_url` | session | the shared servers themselves |
| `own_server` | test | `own_server(PostgresServer, durable=False)`: a server the test may restart or kill |
| `servers` | session | all of it, see `tests.support.servers` |

In folders whose conftest.py imports `tests.support.prepared`, an empty database has its tables already.
Servers start on first use. A test that uses one carries the marker `server`.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.support import collecting, forking, scratch
from tests.support.programs import Program, ServerMissing, find
from tests.support.quick import Quick
from tests.support.repeating import pytest_generate_tests as pytest_generate_tests
from tests.support.servers import MariaDBServer, PostgresServer, RedisServer, Server, Servers, in_ci

if TYPE_CHECKING:
    from tests.support.prepared import Prepared

S = TypeVar("S", bound=Server)
pytest.register_assert_rewrite("horae.testing")  # its conformance suite asserts
# How long an example takes says more about what else the machine does than about us.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
scratch.use_memory()
collecting.pause()
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the many processes that tests start need not compile us each time
forking.use()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores it for what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else what we start would ignore it too

NEED_A_SERVER = {
    "empty_redis_url",
    "mysql_database_url",
    "mysql_url",
    "nats_url",
    "own_server",
    "postgres_database_url",
    "postgres_url",
    "prepared_mysql",
    "prepared_postgres",
    "redis_url",
}


# With several processes at work whoever takes a slow file last keeps the others waiting: these go first.
LONGEST = (
    "docs/test_pages.py",
    "stores/test_conformance.py",
    "service/test_fuzz.py",
    "browser/test_scenarios.py",
    "actions/test_governance_crashes.py",
    "stores/test_plans.py",
    "stores/test_partitions.py",
    "journeys/test_remote_workers.py",
    "runtime/test_processes.py",
)
# The files of these have ended when a part of the run is left for the quick ones, which fill the gaps at its end.
SLOW = {
    "actions",
    "adapters",
    "architecture",
    "attention",
    "browser",
    "bus",
    "cli",
    "console",
    "deploy",
    "docs",
    "examples",
    "executors",
    "generated",
    "journeys",
    "mcp",
    "runtime",
    "service",
    "stores",
    "support",
    "testing",
    "wheel",
}
EARLIER = 0.7  # of the run


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what needs a server, a process or a second")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("quick"):
        config.pluginmanager.register(Quick(), "quick")


def pytest_collection_finish() -> None:
    collecting.resume()
    from tests.support.compiling import share_statements  # the process that only hands out tests need not import it

    share_statements()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    fickle = [item.nodeid for item in items if "object at 0x" in item.nodeid]
    if fickle:  # an address differs from process to process, and processes that work together must name tests alike
        raise pytest.UsageError(f"name this case by what it is, not by where it lies: {fickle[0]}")
    order = _order(list(dict.fromkeys(map(_file_of, items))))
    items.sort(key=lambda item: order[_file_of(item)])
    for item in items:
        if NEED_A_SERVER & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.server)


def _order(files: Sequence[str]) -> dict[str, float]:
    """Say when each file begins: the longest first, and those of each folder spread over the run.

    Files of a folder are alike. Those that wait for leases and processes would leave the cores idle if all processes
    took them at the same time; beside files that compute they cost next to nothing.
    """
    folders: dict[str, list[str]] = {}
    for file in files:
        folders.setdefault(file.partition("/")[0], []).append(file)
    spread = {
        file: (place + 0.5) / len(alike) * (EARLIER if folder in SLOW else 1)
        for folder, alike in folders.items()
        for place, file in enumerate(alike)
    }
    return spread | {file: place - len(LONGEST) for place, file in enumerate(LONGEST)}


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].removeprefix("tests/")


def do_without(missing: ServerMissing) -> NoReturn:
    """Skip for want of a program, in plain sight; where nobody would read it, fail."""
    if in_ci():
        pytest.fail(f"{missing} (CI is set, so this is a failure and not a skip)", pytrace=False)
    pytest.skip(str(missing))


def needs(program: Program) -> Path:
    """Return where the program is; without it the calling test is skipped, or failed where CI is set."""
    try:
        return find(program)
    except ServerMissing as missing:
        do_without(missing)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with Servers(in_memory=True) as servers:
        yield servers


@pytest.fixture(scope="session")
def postgres_server(servers: Servers) -> PostgresServer:
    try:
        return servers.postgres
    except ServerMissing as missing:
        do_without(missing)


@pytest.fixture(scope="session")
def mysql_server(servers: Servers) -> MariaDBServer:
    try:
        return servers.mariadb
    except ServerMissing as missing:
        do_without(missing)


@pytest.fixture(scope="session")
def redis_server(servers: Servers) -> RedisServer:
    try:
        return servers.redis
    except ServerMissing as missing:
        do_without(missing)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    return postgres_server.url


@pytest.fixture(scope="session")
def mysql_url(mysql_server: MariaDBServer) -> str:
    return mysql_server.url


@pytest.fixture(scope="session")
def nats_url(servers: Servers) -> str:
    """A NATS server with JetStream; tests choose names of their own for streams and subjects."""
    try:
        return servers.nats.url
    except ServerMissing as missing:
        do_without(missing)


@pytest.fixture(scope="session")
def redis_url(redis_server: RedisServer) -> str:
    return redis_server.url


@pytest.fixture(scope="session")
def prepared_postgres(postgres_server: PostgresServer) -> "Prepared":
    from tests.support.prepared import Prepared  # it imports the stores, and not every run needs them

    return Prepared(postgres_server)


@pytest.fixture(scope="session")
def prepared_mysql(mysql_server: MariaDBServer) -> "Prepared":
    from tests.support.prepared import Prepared

    return Prepared(mysql_server)


@pytest.fixture
def sqlite_database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'horae.db'}"


@pytest.fixture
def postgres_database_url(postgres_server: PostgresServer) -> Iterator[str]:
    url = postgres_server.create_database()
    yield url
    postgres_server.release_database(url)


@pytest.fixture
def mysql_database_url(mysql_server: MariaDBServer) -> Iterator[str]:
    url = mysql_server.create_database()
    yield url
    mysql_server.release_database(url)


@pytest.fixture
def empty_redis_url(redis_server: RedisServer) -> str:
    redis_server.empty()
    return redis_server.url


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.server),
        pytest.param("mysql", marks=pytest.mark.server),
    ]
)
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind in turn, in SQLAlchemy form."""
    url: str = request.getfixturevalue(f"{request.param}_database_url")
    return url


@pytest.fixture
def own_server(servers: Servers) -> Iterator[Callable[..., Server]]:
    """Start servers that belong to this test alone; they end with it."""
    owned: list[Server] = []

    def own(kind: type[S], *, durable: bool = False) -> S:
        try:
            server = servers.own(kind, durable=durable)
        except ServerMissing as missing:
            do_without(missing)
        owned.append(server)
        return server

    yield own
    for server in owned:
        servers.discard(server)
