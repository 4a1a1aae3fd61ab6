"""Several hosts in one URL: who is asked, who is taken, who is refused."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from sqlalchemy import create_engine, text

from horae.errors import ConfigurationError
from horae.stores.databases.hosts import Host, Hosts, Standing, split_hosts
from horae.stores.databases.mysql_connections import take_hosts
from horae.stores.databases.postgres_connections import BoundedConnection
from horae.stores.opening import create_store_engine, read_url
from tests.support.refusals import refused
from tests.support.servers import PostgresServer
from tests.support.waiting import wait_until

PRIMARY, STANDBY = Standing(True, "system", 1), Standing(False, "system", 1)


@dataclass
class Opened:
    host: str
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass
class Machines:
    """Hosts that answer, refuse, or do not answer before they are let go."""

    standings: dict[str, Standing | None]
    dark: set[str] = field(default_factory=set)
    let_go: threading.Event = field(default_factory=threading.Event)
    opened: list[Opened] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def connect(self, host: Host) -> tuple[Opened, Standing]:
        name = str(host["host"])
        self.asked.append(name)
        if name in self.dark:
            self.let_go.wait(60)
        standing = self.standings[name]
        if standing is None:
            raise ConnectionError("refused")
        self.opened.append(Opened(name))
        return self.opened[-1], standing

    def hosts(self, budget: float = 5.0) -> Hosts[Opened]:
        return Hosts([{"host": name} for name in self.standings], self.connect, ConnectionError, budget)


def test_the_host_that_can_be_written_to_is_taken_and_others_are_let_go() -> None:
    machines = Machines({"a": STANDBY, "b": PRIMARY, "c": None})

    taken = machines.hosts().connect()

    assert taken.host == "b"
    assert [each.host for each in machines.opened if not each.closed] == ["b"]


def test_all_hosts_are_asked_once_and_then_only_the_primary() -> None:
    machines = Machines({"a": STANDBY, "b": PRIMARY})
    hosts = machines.hosts()
    hosts.connect()

    hosts.connect()
    hosts.connect()

    assert sorted(machines.asked[:2]) == ["a", "b"]
    assert machines.asked[2:] == ["b", "b"]


def test_of_two_primaries_the_newer_is_taken_wherever_it_stands() -> None:
    machines = Machines({"a": PRIMARY, "b": Standing(True, "system", 2)})

    assert machines.hosts().connect().host == "b"


def test_a_standby_of_the_newer_primary_speaks_against_the_older() -> None:
    machines = Machines({"a": PRIMARY, "b": None, "c": Standing(False, "system", 2)})

    with pytest.raises(ConnectionError, match="a is an old primary: its timeline is 1, but 2 has begun elsewhere"):
        machines.hosts(0.3).connect()


def test_a_primary_that_was_replaced_is_refused_even_when_it_is_alone() -> None:
    machines = Machines({"a": PRIMARY, "b": Standing(True, "system", 2)})
    hosts = machines.hosts(0.3)
    hosts.connect()
    machines.standings["b"] = None

    with pytest.raises(ConnectionError, match=r"a is an old primary.*; b refused"):
        hosts.connect()


def test_a_single_name_that_leads_to_an_older_primary_is_refused() -> None:
    machines = Machines({"a": Standing(True, "system", 2)})
    hosts = machines.hosts()
    hosts.connect()
    machines.standings["a"] = PRIMARY

    with pytest.raises(ConnectionError, match="its timeline is 1"):
        hosts.connect()


def test_another_system_behind_the_same_name_has_timelines_of_its_own() -> None:
    machines = Machines({"a": Standing(True, "system", 7)})
    hosts = machines.hosts()
    hosts.connect()
    machines.standings["a"] = Standing(True, "restored", 1)

    assert hosts.connect().host == "a"


def test_a_primary_that_lives_on_is_refused_once_the_watch_has_met_its_successor() -> None:
    machines = Machines({"a": Standing(True, "s", 1), "b": Standing(False, "s", 1)})
    hosts = machines.hosts()
    assert hosts.connect().host == "a"
    machines.standings["b"] = Standing(True, "s", 2)
    assert hosts.connect().host == "a"  # nobody has looked
    hosts.watch()
    hosts.watch()  # one look at a time
    wait_until(lambda: hosts.timelines.highest("s") == 2, "the watch")
    assert hosts.connect().host == "b"
    assert machines.asked.count("b") == 3
    assert all(each.closed for each in machines.opened if each.host == "b" and each is not machines.opened[-1])


def test_a_survey_says_how_each_host_stands() -> None:
    machines = Machines({"a": Standing(True, "s", 1), "b": Standing(True, "s", 2), "c": None})
    hosts = machines.hosts()
    assert hosts.survey() == {"a": Standing(True, "s", 1), "b": Standing(True, "s", 2), "c": None}
    assert hosts.timelines.is_outdated(Standing(True, "s", 1))
    assert all(each.closed for each in machines.opened)


def test_another_system_behind_the_same_name_is_said(caplog: pytest.LogCaptureFixture) -> None:
    machines = Machines({"a": Standing(True, "s", 7)})
    hosts = machines.hosts()
    hosts.connect()
    machines.standings["a"] = Standing(True, "other", 1)
    hosts.connect()
    assert "a is another database system than before" in caplog.text


def test_a_search_goes_on_until_a_standby_was_promoted() -> None:
    machines = Machines({"a": None, "b": STANDBY})
    hosts = machines.hosts(60.0)
    found: list[Opened] = []
    searching = threading.Thread(target=lambda: found.append(hosts.connect()))
    searching.start()
    wait_until(lambda: machines.asked.count("b") > 1)

    machines.standings["b"] = Standing(True, "system", 2)

    searching.join(60)
    assert [each.host for each in found] == ["b"]


def test_a_search_ends_with_its_budget_and_says_what_each_host_said() -> None:
    machines = Machines({"a": None, "b": STANDBY})

    with pytest.raises(ConnectionError, match="a refused; b cannot be written to"):
        machines.hosts(0.3).connect()


def test_a_host_that_swallows_packets_is_waited_for_once_and_its_late_connection_is_closed() -> None:
    machines = Machines({"a": PRIMARY, "b": PRIMARY}, dark={"a"})
    hosts = machines.hosts(1.0)

    assert hosts.connect().host == "b"
    assert hosts.connect().host == "b"
    assert machines.asked.count("a") == 1
    machines.let_go.set()
    wait_until(lambda: [each for each in machines.opened if each.host == "a" and each.closed])


def test_after_a_lost_connection_all_hosts_are_asked_again() -> None:
    """The lost primary may be back already, and yet have been replaced."""
    machines = Machines({"a": PRIMARY, "b": STANDBY})
    hosts = machines.hosts()
    assert hosts.connect().host == "a"
    machines.standings["b"] = Standing(True, "system", 2)

    hosts.forget(hosts.searches)

    assert hosts.connect().host == "b"


def test_a_connection_from_before_the_last_search_that_is_lost_starts_no_other() -> None:
    machines = Machines({"a": PRIMARY, "b": STANDBY})
    hosts = machines.hosts()
    hosts.connect()
    hosts.forget(hosts.searches)
    hosts.connect()

    hosts.forget(hosts.searches - 1)

    hosts.connect()
    assert hosts.searches == 2


def test_many_threads_share_one_search() -> None:
    machines = Machines({"a": STANDBY, "b": PRIMARY})
    hosts = machines.hosts()
    with _in_threads(8, hosts.connect):
        pass

    assert machines.asked.count("a") == 1


def test_a_search_that_fails_fails_for_all_threads_that_waited_for_it() -> None:
    machines = Machines({"a": None, "b": STANDBY})
    hosts = machines.hosts(1.0)
    refused: list[str] = []

    def connect() -> None:
        try:
            hosts.connect()
        except ConnectionError as problem:
            refused.append(str(problem))

    with _in_threads(8, connect):
        wait_until(lambda: hosts.searches)

    assert len(refused) == 8
    assert hosts.searches < 8, "only a thread that came late searches again"


@contextmanager
def _in_threads(count: int, work: Callable[[], object]) -> Iterator[None]:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


# -- the forms of a URL ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:secret@a:5432,b:5433/db?target_session_attrs=read-write",
        "postgresql+psycopg://ada:secret@/db?host=a:5432&host=b:5433",
        "postgresql://ada:secret@/db?host=a,b&port=5432,5433",
    ],
)
def test_several_hosts_may_be_written_as_libpq_or_sqlalchemy_do(url: str) -> None:
    engine = create_store_engine(url)

    _, parameters = engine.dialect.create_connect_args(engine.url)

    assert split_hosts(parameters) == ({"host": "a", "port": "5432"}, {"host": "b", "port": "5433"})
    assert (parameters["user"], parameters["password"], parameters["dbname"]) == ("ada", "secret", "db")


@pytest.mark.parametrize("url", ["mysql://a:1,[::1]:2/db", "mysql://x@/db?host=a,::1&port=1,2"])
def test_mariadb_takes_the_same_forms(url: str) -> None:
    parsed, hosts = take_hosts(read_url(url))

    assert hosts == ({"host": "a", "port": 1}, {"host": "::1", "port": 2})
    assert (parsed.host, parsed.port, dict(parsed.query)) == ("a", 1, {})


def test_hosts_without_ports_have_the_usual_one() -> None:
    _, hosts = take_hosts(read_url("mysql://a,b:7/db"))

    assert hosts == ({"host": "a", "port": 3306}, {"host": "b", "port": 7})


@pytest.mark.parametrize("url", ["postgresql://a:x,b/db", "postgresql://a:1,/db", "mysql://x@/db?host=a,b,c&port=1,2"])
def test_hosts_that_cannot_be_read_are_refused_in_words(url: str) -> None:
    with refused(ConfigurationError, "database_url_unreadable"):
        create_store_engine(url)


# -- what PostgreSQL tells ---------------------------------------------------------------------------------------------


@pytest.fixture
def plain_role(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database for a role without any rights of its own."""
    url = postgres_server.create_database()
    owner = create_engine(url, isolation_level="AUTOCOMMIT")
    with owner.connect() as connection:
        connection.execute(text("CREATE ROLE horae_plain LOGIN"))
    yield url.replace("postgres@", "horae_plain@")
    with owner.connect() as connection:
        connection.execute(text("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC"))
    owner.dispose()
    postgres_server.drop_database(url)
    with create_engine(postgres_server.url, isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text("DROP ROLE horae_plain"))


def _standing(url: str) -> Standing | None:
    engine = create_store_engine(url)
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, BoundedConnection)
        assert connection.execute(text("SHOW statement_timeout")).scalar() == "30s"
    engine.dispose()
    return driver.standing


@pytest.mark.server
def test_a_role_without_rights_learns_system_and_timeline(plain_role: str) -> None:
    standing = _standing(plain_role)

    assert standing is not None
    assert standing.is_writable
    assert (standing.system.isdecimal(), standing.timeline) == (True, 1)


@pytest.mark.server
def test_a_server_that_hides_its_timeline_is_used_without_a_fence(plain_role: str) -> None:
    with create_engine(plain_role.replace("horae_plain@", "postgres@")).begin() as connection:
        connection.execute(text("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC"))

    assert _standing(plain_role) == Standing(True, "", 0)
