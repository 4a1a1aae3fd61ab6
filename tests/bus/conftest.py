"""An application on each database with the bus switched on, and a stream of the test's own."""

from collections.abc import Iterator

import pytest

from horae import Horae
from horae.actions import bus
from tests.bus.dispatching import far_app
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url


@pytest.fixture
def app(database_url: str) -> Iterator[Horae]:
    with Horae(database_url) as app:
        app.job("send", queue="mail")(lambda: None)
        bus.switch_on(app.world)
        yield app
        bus.switch_off(app.world)  # the database goes on to other tests


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Subjects and streams of this test alone; streams of one server share none."""
    return f"t{abs(hash(request.node.nodeid))}"


@pytest.fixture
def near(sqlite_database_url: str) -> Iterator[Horae]:
    """The application beside the database."""
    with Horae(sqlite_database_url, name="near") as made:
        yield made


@pytest.fixture
def far(nats_url: str, prefix: str) -> Iterator[Horae]:
    """The application on the bus."""
    made = far_app(nats_url, prefix)
    yield made
    made.close()
