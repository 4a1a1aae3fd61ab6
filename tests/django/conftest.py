"""A Django project on each database in turn, in this process: its settings are set once, its database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import django
import pymysql
import pytest
from django.conf import settings
from django.db import connections
from sqlalchemy import make_url

from horae.django.application import DjangoHorae, url_of
from horae.stores.schema import migrate

pymysql.install_as_MySQLdb()  # from here on pymysql.err is a second copy: take errors from pymysql itself
pymysql.version_info = (2, 2, 1, "final", 0)  # what Django asks of mysqlclient
if not settings.configured:
    settings.configure(DATABASES={}, INSTALLED_APPS=[], USE_TZ=True)
    django.setup()


def database_of(url: str) -> dict[str, Any]:
    """Return a database as Django's settings describe it."""
    parts = make_url(url)
    kind = parts.get_backend_name()
    if kind == "sqlite":
        options = {"transaction_mode": "IMMEDIATE", "timeout": 1}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.database, "OPTIONS": options}
    engine = "postgresql" if kind == "postgresql" else "mysql"
    socket = {key: value for key, value in parts.query.items() if key == "unix_socket"}
    host = parts.host or parts.query.get("host") or socket.get("unix_socket") or ""
    return {
        "ENGINE": f"django.db.backends.{engine}", "NAME": parts.database, "USER": parts.username or "",
        "PASSWORD": parts.password or "", "HOST": host, "PORT": str(parts.port or parts.query.get("port") or ""),
    }  # fmt: skip


def use(database: dict[str, Any]) -> None:
    """Let Django's default connection be one to this database."""
    connections.databases["default"] = database
    connections.configure_settings(connections.databases)
    if hasattr(connections._connections, "default"):  # noqa: SLF001 - Django has no other way to change it
        del connections["default"]


@pytest.fixture
def project(database_url: str) -> Iterator[DjangoHorae]:
    """An application on the database that Django uses, with its tables."""
    database = database_of(database_url)
    use(database)
    app = DjangoHorae(url_of(database) if database["ENGINE"].endswith("sqlite3") else database_url)
    migrate(app.engine)
    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE TABLE orders (id INTEGER)")
    yield app
    connections["default"].close()
    app.close()
