"""The support bundle: what a helper elsewhere needs to see, and nothing that is a secret.

It is made by naming what goes in, never by leaving out what must not: no payload, result, error text, owner or token
is read at all. What is written goes once more through a filter, because settings and reasons are free text.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from horae.core.access.callers import mask_tokens
from horae.core.time.instants import iso
from horae.doctor.findings import Finding
from horae.errors import HoraeError, InvalidInput
from horae.ports.schedules import ScheduleFilter
from horae.ports.store import Tx
from horae.settings import Settings
from horae.version import VERSION

SHOWN = (
    "database_url", "queues", "lease", "grace", "synchronous", "log_format", "log_level", "environment", "host", "port",
    "max_body_bytes", "max_enabled_tasks", "shortest_interval", "simulation",
)  # fmt: skip
PACKAGES = ("alembic", "fastapi", "httpx", "psycopg", "pydantic", "pymysql", "sqlalchemy", "tzdata", "uvicorn")
MOST = 500
_LOGIN = re.compile(r"(\w[\w+.-]*://)[^\s/@]*@")
_SECRET = re.compile(r"(?i)(password|passwd|pwd|secret|token|authorization|bearer|api[_-]?key)([\"']?\s*[:= ]\s*)\S+")


def write_bundle(file: Path, settings: Settings, environment: Mapping[str, str], found: Iterable[Finding]) -> list[str]:
    """Write the zip, readable for its owner alone, and return the names of what is in it."""
    try:
        made = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise InvalidInput("bundle_exists", path=str(file)) from None
    except OSError as problem:
        raise InvalidInput("bundle_unwritable", path=str(file), problem=str(problem.strerror)) from None
    parts = {
        "doctor.json": [finding.as_json() for finding in found],
        "versions.json": _versions(),
        "settings.json": _settings(settings, environment),
        "store.json": _store(settings),
    }
    hide = _password(settings.database_url)
    with os.fdopen(made, "wb") as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, part in parts.items():
            clean = _clean(json.loads(json.dumps(part, default=str)), hide)
            bundle.writestr(name, json.dumps(clean, indent=2, ensure_ascii=False))
    return list(parts)


def redact(text: str, *hide: str) -> str:
    """Return the text without tokens, logins in URLs, and what stands behind words like password."""
    for each in filter(None, hide):
        text = text.replace(each, "***")
    return _SECRET.sub(r"\1\2***", _LOGIN.sub(r"\1***@", mask_tokens(text)))


def _clean(part: Any, hide: str) -> Any:
    """Return the same value with every text in it redacted."""
    if isinstance(part, dict):
        return {redact(name, hide): _clean(value, hide) for name, value in part.items()}
    if isinstance(part, list):
        return [_clean(value, hide) for value in part]
    return redact(part, hide) if isinstance(part, str) else part


def _password(url: str) -> str:
    try:
        return str(make_url(url).password or "")
    except ArgumentError:
        return url


def _versions() -> dict[str, str]:
    versions = {"horae": VERSION, "python": sys.version, "platform": platform.platform()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _settings(settings: Settings, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of harmless settings; of every other only whether it is set."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {
        "values": {name: _plain(values[name]) for name in SHOWN},
        "set": sorted(name for name, value in values.items() if name not in SHOWN and value),
        "environment": sorted(name for name in environment if name.startswith("HORAE_")),
    }


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _store(settings: Settings) -> dict[str, Any]:
    from horae.doctor.database import open_database

    try:
        store = open_database(settings)
    except HoraeError as problem:
        return {"problem": str(problem)}
    try:
        return store.read(_contents, unbounded=True)
    except HoraeError as problem:
        return {"problem": str(problem)}
    finally:
        store.close()


def _contents(tx: Tx) -> dict[str, Any]:
    """Return counts, names and times."""
    schedules = tx.schedules.find(ScheduleFilter(), limit=MOST, after=None)
    return {
        "rows": tx.health.table_sizes(),
        "jobs": tx.health.jobs_by_handler(),
        "runs": tx.health.runs_by_handler(),
        "queues": [asdict(queue) | {"pause_reason": None} for queue in tx.queues.all()],
        "nodes": [
            {
                "id": node.node_id,
                "version": node.version,
                "seen_at": iso(node.seen_at),
                "queues": dict(node.queues),
                "state": node.state,
            }
            for node in tx.nodes.all()
        ],
        "schedules": [
            {
                "number": each.number,
                "handler": each.handler,
                "kind": each.kind,
                "expression": each.expression,
                "zone": each.zone,
                "is_on": each.is_on,
                "paused": each.paused_at is not None,
                "inactive": each.inactive is not None,
                "next_fire_at": None if each.next_fire_at is None else iso(each.next_fire_at),
                "tzdata": each.tzdata,
            }
            for each in schedules
        ],
    }
