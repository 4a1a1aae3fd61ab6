"""An application from Django's settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any

from sqlalchemy import URL

from horae.actions.jobs.requests import Request
from horae.app import Horae
from horae.declare.definitions import Definition
from horae.errors import ConfigurationError
from horae.runtime.enqueued import EnqueuedJob

BACKENDS = {"sqlite3": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
OPTIONS = {"NAME": "name", "CONFIG": "config", "ENVIRONMENT": "environment", "ENABLED": "enabled", "RELEASE": "release"}
DEFAULT = "default"


class DjangoHorae(Horae):
    """An application that keeps its jobs in one of Django's databases.

    What is enqueued inside ``transaction.atomic`` on that database joins it, without ``using(connection=…)``: the job
    is there if, and only if, that transaction is committed.
    """

    alias = DEFAULT

    def store_jobs(self, requests: Iterable[Request], connection: Any = None) -> list[EnqueuedJob]:
        return super().store_jobs(requests, self._or_atomic(connection))

    def joining(self, connection: Any) -> AbstractContextManager[Any]:
        return super().joining(self._or_atomic(connection))

    def find_handler(self, name: str) -> Definition | None:
        """Return what runs jobs of a name, with Django's connections looked after as around a request."""
        found = super().find_handler(name)
        if found is None or found.executor != "thread":
            return found
        known = self._looked_after.get(name)
        if known is None or known[0] is not found:
            known = self._looked_after[name] = found, replace(found, function=_between_requests(found.function))
        return known[1]

    @cached_property
    def _looked_after(self) -> dict[str, tuple[Definition, Definition]]:
        return {}

    def _or_atomic(self, connection: Any) -> Any:
        """Return Django's connection where a transaction of its is open, unless another one is given."""
        if connection is not None or self.acts_on_service:
            return connection
        from django.db import connections

        ours = connections[self.alias]
        return ours if ours.in_atomic_block else None


def _between_requests(function: Callable[..., Any]) -> Callable[..., Any]:
    """Close connections of this thread that are broken or too old, before a handler runs and after it."""
    from django.db import close_old_connections

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return run


def from_settings() -> DjangoHorae:
    """Make the application that ``settings.HORAE`` describes."""
    from django.conf import settings

    given: Mapping[str, Any] = getattr(settings, "HORAE", {})
    known = ("DATABASE", "URL", *OPTIONS)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigurationError("django_setting_unknown", name=unknown[0], choices=list(known))
    alias = given.get("DATABASE", DEFAULT)
    if alias not in settings.DATABASES:
        raise ConfigurationError("django_database_unknown", name=str(alias), choices=sorted(settings.DATABASES))
    options = {name: given[word] for word, name in OPTIONS.items() if word in given}
    options.setdefault("name", settings.SETTINGS_MODULE.partition(".")[0] if settings.configured else "django")
    made = DjangoHorae(given.get("URL") or url_of(settings.DATABASES[alias]), **options)
    made.alias = alias
    return made


def url_of(database: Mapping[str, Any]) -> str:
    """Return a database of Django's settings as a URL; refuse one that Horae does not know."""
    engine = str(database.get("ENGINE", "")).rpartition(".")[2]
    if engine not in BACKENDS:
        raise ConfigurationError("django_engine_unknown", engine=str(database.get("ENGINE")), choices=sorted(BACKENDS))
    if engine == "sqlite3":
        return f"sqlite:///{database['NAME']}"
    port = str(database.get("PORT") or "")
    url = URL.create(
        BACKENDS[engine],
        username=database.get("USER") or None,
        password=database.get("PASSWORD") or None,
        host=database.get("HOST") or None,
        port=int(port) if port else None,
        database=str(database["NAME"]),
    )
    return url.render_as_string(hide_password=False)
