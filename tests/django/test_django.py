"""Django: jobs join its transactions on three databases, and so do plain connections of the drivers."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from sqlalchemy import make_url

from horae import Horae
from horae.django.application import DjangoHorae, url_of
from horae.errors import ConfigurationError, KeyConflict, NotAllowed, SchemaMissing, StoreBusy
from tests.django.conftest import use
from tests.support.refusals import refused


class CardRefused(Exception):
    pass


def confirm(order_id: int) -> None: ...


def place(order_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s)", [order_id])


def orders() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM orders ORDER BY id")
        return [row[0] for row in cursor.fetchall()]


def stored(app: Horae) -> list[Any]:
    return sorted(job.payload["order_id"] for job in app.jobs.list())


def test_a_job_and_its_order_are_stored_together_or_not_at_all(project: DjangoHorae) -> None:
    job, seen = project.job("confirm")(confirm), list[list[int]]()
    with transaction.atomic():
        place(1)
        job.using(connection=connection).enqueue(order_id=1)
        transaction.on_commit(lambda: seen.append(stored(project)))
    with suppress(CardRefused), transaction.atomic():
        place(2)
        job.using(connection=connection, key="two").enqueue(order_id=2)
        raise CardRefused

    assert (orders(), stored(project), seen) == ([1], [1], [[1]])
    job.using(connection=connection).enqueue(order_id=3)  # outside atomic it is committed at once
    assert stored(project) == [1, 3]


def test_an_inner_block_that_is_undone_takes_its_job_along_and_a_refusal_undoes_nothing_else(
    project: DjangoHorae,
) -> None:
    job = project.job("confirm")(confirm)
    with transaction.atomic():
        place(1)
        with suppress(CardRefused), transaction.atomic():
            job.using(connection=connection).enqueue(order_id=2)
            raise CardRefused
        job.using(connection=connection, key="one").enqueue(order_id=1)
        with pytest.raises(KeyConflict):
            job.using(connection=connection, key="one").enqueue(order_id=7)
        job.using(connection=connection).enqueue_many([{"order_id": 8}, {"order_id": 9}])

    assert (orders(), stored(project)) == ([1], [1, 8, 9])


def test_the_application_of_the_settings_joins_by_itself(project: DjangoHorae) -> None:
    job = project.job("confirm")(confirm)
    with suppress(CardRefused), transaction.atomic():
        job.enqueue(order_id=1)
        project.enqueue("confirm", order_id=2)
        raise CardRefused
    with transaction.atomic():
        made = job.enqueue(order_id=3)
        with refused(NotAllowed, "wait_before_commit", id=made.id):
            made.wait(0)

    assert stored(project) == [3]


def test_a_transaction_that_has_failed_takes_no_job(project: DjangoHorae) -> None:
    job = project.job("confirm")(confirm)
    with suppress(NotAllowed), transaction.atomic():
        with suppress(DatabaseError), transaction.atomic(savepoint=False), connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")
        with refused(NotAllowed, "django_transaction_broken"):
            job.using(connection=connection).enqueue(order_id=1)

    assert stored(project) == []


def driver_connection(url: str) -> Any:
    parts = make_url(url)
    if parts.get_backend_name() == "sqlite":
        return sqlite3.connect(str(parts.database), timeout=1)
    connection.ensure_connection()
    if parts.get_backend_name() == "postgresql":
        import psycopg

        return psycopg.connect(connection.connection.info.dsn, password=parts.password or "")
    import pymysql

    given = connection.get_connection_params()
    wanted = {name: given[name] for name in ("user", "password", "host", "port", "unix_socket") if name in given}
    return pymysql.connect(database=parts.database, **wanted)


def test_connections_of_the_drivers_are_joined_too(project: DjangoHorae, database_url: str) -> None:
    app = Horae(project.database)
    job = app.job("confirm")(confirm)
    with closing(driver_connection(database_url)) as raw:
        job.using(connection=raw, key="a").enqueue(order_id=1)
        raw.rollback()
        job.using(connection=raw, key="a").enqueue(order_id=2)
        raw.commit()
        if isinstance(raw, sqlite3.Connection):
            raw.isolation_level = None
        elif hasattr(raw, "set_autocommit"):
            raw.set_autocommit(True)
        else:
            raw.autocommit(True)
        with refused(ConfigurationError, "connection_in_autocommit"):
            job.using(connection=raw).enqueue(order_id=3)

    assert stored(app) == [2]
    app.close()


def test_what_cannot_be_joined_is_refused_in_words(tmp_path: Any) -> None:
    app = Horae(f"sqlite:///{tmp_path}/app.db")
    job = app.job("confirm")(confirm)

    class Odd:
        def cursor(self) -> None: ...

    for odd in (5, Odd(), "postgresql://somewhere"):
        with refused(ConfigurationError, "connection_unusable"):
            job.using(connection=odd).enqueue(order_id=1)
    for engine, reason in (("django.db.backends.oracle", "django_engine_unknown"),):
        with refused(ConfigurationError, reason):
            url_of({"ENGINE": engine, "NAME": "x"})
    assert (
        url_of(
            {"ENGINE": "django.db.backends.postgresql", "NAME": "shop", "USER": "ann", "PASSWORD": "p@ss", "HOST": "db"}
        )
        == "postgresql+psycopg://ann:p%40ss@db/shop"
    )


def test_a_file_without_tables_is_refused_at_once_and_not_waited_for(tmp_path: Any) -> None:
    use({"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "new.db"), "OPTIONS": {"timeout": 0.1}})
    app = DjangoHorae(f"sqlite:///{tmp_path}/new.db")
    job = app.job("confirm")(confirm)

    with transaction.atomic(), refused(SchemaMissing, "tables_old"):
        job.enqueue(order_id=1)
    connection.close()


def test_atomic_without_immediate_is_told_as_a_busy_store_and_not_waited_for(tmp_path: Any) -> None:
    path = tmp_path / "shop.db"
    use({"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "OPTIONS": {"timeout": 0.1}})
    app = DjangoHorae(f"sqlite:///{path}")
    job = app.job("confirm")(confirm)
    job.enqueue(order_id=1)
    with transaction.atomic():
        orders_seen = connection.cursor().execute("SELECT COUNT(*) FROM horae_jobs").fetchone()
        assert orders_seen == (1,)
        with closing(sqlite3.connect(path)) as other:  # it writes between the read and the write of this transaction
            other.execute("CREATE TABLE more (id INTEGER)")
            other.commit()
        with refused(StoreBusy, "sqlite_locked"):
            job.enqueue(order_id=2)
    connection.close()

    assert stored(app) == [1]
    app.close()
