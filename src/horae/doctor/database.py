"""Checks of the database: reachable, tables current, durability, clock, hints."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

from horae.core.audit.guard import ADVICE, missing_guard
from horae.doctor.findings import Finding, Installation, disk_usage_command, ok, problem, warning
from horae.errors import Fact, HoraeError, SchemaMissing, SchemaTooNew, StoreFull
from horae.settings import Settings
from horae.stores.databases.durability import durability
from horae.stores.databases.hosts import survey_hosts
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
        yield problem("database", "database_absent", "horae db migrate", path=str(installation.file))
        return
    began = installation.clock.monotonic()
    try:
        schema = store.run_with_retry(lambda: inspect_schema(store.engine))
    except SchemaTooNew as newer:
        yield problem("migrations", "migrations_trouble", "pip install --upgrade horae", problem=str(newer))
        return
    except SchemaMissing as older:  # from before the baseline
        yield problem(
            "migrations", "migrations_trouble", "horae db export --out FILE  (with the older Horae)", problem=str(older)
        )
        return
    except StoreFull as full:
        remote = installation.file is None
        mend = "df -h  (on the database's host)" if remote else disk_usage_command(cast(Path, installation.file))
        yield problem("database", "database_trouble", mend, problem=str(full))
        return
    except HoraeError as trouble:
        yield problem("database", "database_trouble", START[store.dialect.name], problem=str(trouble))
        return
    took = (installation.clock.monotonic() - began) * 1000
    yield ok("database", "database_answers", url=url, took=took)
    if schema.is_current:
        yield ok("migrations", "migrations_current", version=schema.found)
    elif schema.is_newer:  # of a cluster that is being upgraded: the database says that this code may go on
        found = schema.found or ""
        yield warning("migrations", "migrations_near", "pip install --upgrade horae", found=found, wanted=schema.wanted)
    elif schema.found is None:
        yield problem("migrations", "tables_missing", "horae db migrate", wanted=schema.wanted)
    else:
        yield problem("migrations", "migrations_older", "horae db migrate", found=schema.found, wanted=schema.wanted)


def promise(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Say what a commit survives."""
    with store.reading() as connection:
        found = durability(connection)
    facts: dict[str, Fact] = {"product": found.product, "promise": found.promise, "loses": found.may_lose}
    if found.promise == "durable":
        yield ok("durability", "durability_promise", **facts)
    elif found.promise == "crash-safe":
        yield warning("durability", "durability_promise", found.mend, **facts)
    else:
        yield problem("durability", "durability_promise", found.mend, **facts)


def primaries(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Check that one host of the URL can be written to, where it names several; nothing to say otherwise."""
    able = {name: each for name, each in survey_hosts(store.engine).items() if each is not None and each.is_writable}
    if len(able) < 2:
        return
    highest = max(each.timeline for each in able.values())
    old = sorted(name for name, each in able.items() if each.timeline < highest)
    if old:
        yield problem("hosts", "hosts_old_primary", hosts=old, timeline=highest)
    else:
        yield problem("hosts", "hosts_two_primaries", hosts=sorted(able), timeline=highest)


def audit_guard(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Check that the database refuses to change audit entries."""
    missing = store.read(lambda tx: tx.audit.missing_guards())
    if missing:
        reason, facts = missing_guard(missing)
        yield warning("audit", reason, ADVICE, **facts)
    else:
        yield ok("audit", "audit_guarded")


def clocks(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Compare the clock of this machine with the database's."""
    before = installation.clock.now()
    theirs = store.read_time()
    after = installation.clock.now()
    if theirs is None:
        yield ok("clock", "clock_of_this_machine")
        return
    offset = max(before - theirs, theirs - after, timedelta(0))
    seconds = offset.total_seconds()
    if offset <= SMALL:
        yield ok("clock", "clocks_agree", seconds=seconds)
        return
    level = problem if offset > LARGE else warning
    yield level("clock", "clocks_differ", "timedatectl set-ntp true", seconds=seconds)


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
        yield ok("hints", "hints_arrive")
    else:
        yield warning(
            "hints",
            "hints_missing",
            "horae doctor --db postgresql://…  (the address of the server itself)",
        )


def open_database(settings: Settings) -> SqlStore:
    """Return the store behind the settings, without touching its tables."""
    from horae.stores.opening import create_store_engine, store_on

    limits = settings.timeouts
    return store_on(create_store_engine(settings.database_url, settings.synchronous, limits), limits)
