"""Checks of the database: reachable, tables current, durability, clock, hints."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from horae.core.audit.guard import ADVICE, GUARDED, describe_missing
from horae.doctor.findings import Finding, Installation, disk_usage_command, ok, problem, warning
from horae.errors import HoraeError, SchemaMissing, SchemaTooNew, StoreFull
from horae.settings import Settings
from horae.stores.databases.durability import durability
from horae.stores.schema import inspect_schema

if TYPE_CHECKING:
    from horae.stores.store import SqlStore

SMALL, LARGE = timedelta(seconds=1), timedelta(seconds=30)
HINT_PATIENCE = 1.5  # seconds until a hint that was sent must have come back
START = {
    "sqlite": "horae db migrate",
    "postgresql": "systemctl start postgresql",
    "mysql": "systemctl start mariadb",
}


def reached(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Check that it answers, and with which tables."""
    url = store.engine.url.render_as_string(hide_password=True)
    if installation.file is not None and not installation.file.exists():
        yield problem("database", f"There is no database at {installation.file}.", "horae db migrate")
        return
    began = installation.clock.monotonic()
    try:
        schema = store.run_with_retry(lambda: inspect_schema(store.engine))
    except SchemaTooNew as newer:
        yield problem("migrations", str(newer), "pip install --upgrade horae")
        return
    except SchemaMissing as older:  # from before the baseline
        yield problem("migrations", str(older), "horae db export --out FILE  (with the older Horae)")
        return
    except StoreFull as full:
        yield problem(
            "database",
            str(full),
            "df -h  (on the database's host)" if installation.file is None else disk_usage_command(installation.file),
        )
        return
    except HoraeError as trouble:
        yield problem("database", str(trouble), START[store.dialect.name])
        return
    took = (installation.clock.monotonic() - began) * 1000
    yield ok("database", f"{url} answers ({took:.0f} ms)")
    if schema.is_current:
        yield ok("migrations", f"its tables are current ({schema.found})")
    else:
        have = "no Horae tables" if schema.found is None else f"tables of version {schema.found}"
        yield problem("migrations", f"The database has {have}; this Horae needs {schema.wanted}.", "horae db migrate")


def promise(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Say what a commit survives."""
    with store.reading() as connection:
        found = durability(connection)
    text = f"{found.product}: {found.promise}; {found.may_lose}"
    if found.promise == "durable":
        yield ok("durability", text)
    elif found.promise == "crash-safe":
        yield warning("durability", text + ".", found.mend)
    else:
        yield problem("durability", text + ".", found.mend)


def audit_guard(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Check that the database refuses to change audit entries."""
    missing = store.read(lambda tx: tx.audit.missing_guards())
    if missing:
        yield warning("audit", describe_missing(missing), ADVICE)
    else:
        yield ok("audit", GUARDED)


def clocks(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Compare the clock of this machine with the database's."""
    before = installation.clock.now()
    theirs = store.read_time()
    after = installation.clock.now()
    if theirs is None:
        yield ok("clock", "the database has the clock of this machine")
        return
    offset = max(before - theirs, theirs - after, timedelta(0))
    text = f"this machine's clock and the database's differ by {offset.total_seconds():.3f} s"
    if offset <= SMALL:
        yield ok("clock", text)
        return
    level = problem if offset > LARGE else warning
    yield level("clock", f"{text.capitalize()}. Workers follow the database's.", "timedatectl set-ntp true")


def hints(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Check that a sleeping worker hears of new work at once; without hints it looks often instead."""
    if not hasattr(store, "open_direct"):
        return
    heard = threading.Event()
    unsubscribe = store.subscribe(lambda _: None)
    try:
        waited = 0.0
        while not store.hears() and waited < HINT_PATIENCE:
            heard.wait(0.02)
            waited += 0.02
        arrived = store.hears()
    finally:
        unsubscribe()
    if arrived:
        yield ok("hints", "LISTEN and NOTIFY arrive")
    else:
        yield warning(
            "hints",
            "NOTIFY does not arrive, so that workers find new work by looking: a pooler in transaction mode "
            "stands in between.",
            "horae doctor --db postgresql://…  (the address of the server itself)",
        )


def open_database(settings: Settings) -> SqlStore:
    """Return the store behind the settings, without touching its tables."""
    from horae.stores.opening import create_store_engine, store_on

    limits = settings.timeouts
    return store_on(create_store_engine(settings.database_url, settings.synchronous, limits), limits)
