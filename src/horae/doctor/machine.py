"""Checks of this machine and this process: versions, settings, zones, disk, port."""

from __future__ import annotations

import errno
import http.client
import importlib.metadata
import os
import re
import shutil
import socket
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from horae.clock import zone_database_version
from horae.doctor.findings import Check, Finding, Installation, disk_usage_command, ok, problem, warning
from horae.settings import unknown_names
from horae.stores.databases.durability import has_wal_reset_bug
from horae.version import VERSION

# What each extra brings. Packages, not modules: that of openai-agents is called agents, as many a folder of users is.
EXTRAS = {
    "client": ("httpx",),
    "server": ("fastapi", "uvicorn", "httpx"),
    "postgres": ("psycopg",),
    "mysql": ("pymysql",),
    "redis": ("redis",),
    "nats": ("nats-py",),
    "mcp": ("mcp",),
    "a2a": ("a2a-sdk",),
    "claude": ("claude-agent-sdk",),
    "langgraph": ("langgraph", "langgraph-checkpoint"),
    "pydantic-ai": ("pydantic-ai-slim",),
    "openai-agents": ("openai-agents",),
    "dask": ("distributed",),
    "kubernetes": ("httpx",),
    "ray": ("ray",),
    "otel": ("opentelemetry-api", "opentelemetry-sdk"),
}
LOW, LOWEST = 1024**3, 100 * 1024**2  # bytes of free disk: worth a look, worth a fright
PAGE = bytes(4096)
PATIENCE = 0.5  # seconds for the process at our port to answer


def versions(installation: Installation) -> Iterator[Finding]:
    yield ok("versions", "versions_known", version=VERSION, python=".".join(map(str, sys.version_info[:3])))


def extras(installation: Installation) -> Iterator[Finding]:
    have = {name: all(_is_installed(package) for package in packages) for name, packages in EXTRAS.items()}
    installed = [name for name, there in have.items() if there]
    missing = [name for name, there in have.items() if not there]
    if missing:
        yield ok("extras", "extras_some", installed=installed, missing=missing)
    else:
        yield ok("extras", "extras_all", installed=installed)


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def settings(installation: Installation) -> Iterator[Finding]:
    strange = unknown_names(installation.environment)
    for name, meant in strange.items():
        if meant:
            yield warning("settings", "setting_probably_meant", f"unset {name}", name=name, meant=meant)
        else:
            yield warning("settings", "setting_unknown", f"unset {name}", name=name)
    if not strange:
        yield ok("settings", "settings_known")


def sqlite_library(installation: Installation) -> Iterator[Finding]:
    if installation.file is None:
        return
    if has_wal_reset_bug():
        mend = "apt-get install --only-upgrade libsqlite3-0"
        yield warning("sqlite", "sqlite_may_lose", mend, version=sqlite3.sqlite_version)
    else:
        yield ok("sqlite", "sqlite_well", version=sqlite3.sqlite_version)


def disk(installation: Installation) -> Iterator[Finding]:
    if installation.file is None:
        return
    folder = next(each for each in (installation.file.absolute().parents) if each.exists())
    free = shutil.disk_usage(folder).free
    mend = disk_usage_command(installation.file)
    if (full := _is_full(folder)) is not None:
        yield problem("disk", "disk_full", mend, folder=str(folder), problem=full)
    elif free < LOWEST:
        yield problem("disk", "disk_lowest", mend, free=free / 1024**2, folder=str(folder))
    elif free < LOW:
        yield warning("disk", "disk_low", mend, free=free / 1024**3, folder=str(folder))
    else:
        yield ok("disk", "disk_well", free=free / 1024**3, folder=str(folder))


def _is_full(folder: Path) -> str | None:
    """Try to write one page and return why there is no room; free space alone does not show a quota."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(PAGE)
            os.fsync(file.fileno())
    except OSError as trouble:
        return trouble.strerror if trouble.errno in (errno.ENOSPC, errno.EDQUOT) else None
    return None


def permissions(installation: Installation) -> Iterator[Finding]:
    if installation.file is None or not installation.file.exists():
        return
    open_to_all = stat.S_IMODE(installation.file.stat().st_mode) & stat.S_IROTH
    reachable = all(stat.S_IMODE(each.stat().st_mode) & stat.S_IXOTH for each in installation.file.absolute().parents)
    path = str(installation.file)
    if open_to_all and reachable:
        yield warning("permissions", "permissions_open", f"chmod o-rwx {path}*", path=path)
    else:
        yield ok("permissions", "permissions_well", path=path)


def zones(installation: Installation) -> Iterator[Finding]:
    edition, packaged = zone_database_version(), _packaged_edition()
    if not edition:
        yield problem("tzdata", "tzdata_missing", "pip install --upgrade tzdata")
    elif packaged and re.fullmatch(r"\d{4}[a-z]", edition) and edition < packaged:
        mend = "apt-get install --only-upgrade tzdata"
        yield warning("tzdata", "tzdata_of_system_older", mend, edition=edition, packaged=packaged)
    elif int(edition[:4]) < installation.now.year - 1:
        yield warning("tzdata", "tzdata_old", "pip install --upgrade tzdata", year=edition[:4])
    else:
        yield ok("tzdata", "tzdata_well", edition=edition)


def _packaged_edition() -> str | None:
    """Return the edition of the installed package: ``2026f`` for version 2026.6."""
    with suppress(importlib.metadata.PackageNotFoundError, ValueError):
        year, _, number = importlib.metadata.version("tzdata").partition(".")
        return f"{int(year)}{chr(ord('a') + int(number.partition('.')[0]) - 1)}"
    return None


def port(installation: Installation) -> Iterator[Finding]:
    host, number = installation.settings.host, installation.settings.port
    if not number:
        return
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            line.bind((host, number))
        except OSError as trouble:
            taken = trouble.strerror
        else:
            yield ok("port", "port_free", port=number, host=host)
            return
    reached = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    if _says_it_is_alive(reached, number):
        yield ok("port", "port_answers", host=reached, port=number)
    else:
        mend = f"ss -tlnp 'sport = :{number}'"
        yield warning("port", "port_not_ours", mend, host=host, port=number, problem=taken)


def _says_it_is_alive(host: str, number: int) -> bool:
    connection = http.client.HTTPConnection(host, number, timeout=PATIENCE)
    try:
        connection.request("GET", "/healthz")
        return b'"ok"' in connection.getresponse().read(1000)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


CHECKS: tuple[Check, ...] = (
    versions, extras, settings, zones, port, sqlite_library, disk, permissions,
)  # fmt: skip
