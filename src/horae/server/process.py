"""The service as a process: options from the settings, a store, and uvicorn from its first to its last request."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from fastapi import FastAPI

from horae.clock import SystemClock, SystemDice, pause
from horae.doctor.in_process import examine_world
from horae.errors import (
    ConfigurationError,
    HoraeError,
    NotAllowed,
    SchemaMissing,
    SchemaTooNew,
    StoreUnavailable,
)
from horae.outgoing.encryption import sealer_from
from horae.ports.world import World
from horae.server.http_server import HttpServer
from horae.server.socket import is_loopback
from horae.service.asgi import build
from horae.service.auth import jwt
from horae.service.fresh import Fresh
from horae.service.guard.limits import Rates
from horae.service.long_poll import waiting_room_of
from horae.service.options import Options
from horae.settings import Settings, effective_settings
from horae.version import VERSION

log = logging.getLogger("horae.server")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
FATAL = (ConfigurationError, SchemaMissing, SchemaTooNew)  # waiting does not help
FIRST_PATIENCE = 3.0  # seconds that a start waits for the store before it goes on without
EXAMINED_EVERY = 5.0  # seconds
KEEP_ALIVE = 75  # seconds: longer than what proxies keep, so that they close first


def options_from(settings: Settings, opens: Callable[[], World], **given: Any) -> Options:
    """Return the options of the service from the settings; *given* ones win."""
    values: dict[str, Any] = {
        "version": VERSION,
        "simulation": settings.simulation,
        "max_body_bytes": settings.max_body_bytes,
        "max_enabled_tasks": settings.max_enabled_tasks,
        "max_unfinished_jobs": settings.max_unfinished_jobs,
        "shortest_interval": settings.shortest_interval,
        "sealer": sealer_from({"HORAE_SECRET_KEY": settings.secret_key or ""}),
        "public_url": settings.public_url.rstrip("/"),
        "cors_origins": settings.cors_origins,
        "open_metrics": settings.metrics_open,
        "instance": settings.instance,
        "instance_colour": settings.instance_colour,
        "trace_url": settings.trace_url,
        "settings": lambda: effective_settings(settings, os.environ),
        "monotonic": SystemClock().monotonic,
        "names": SystemDice().name,
        "rates": Rates(settings.calls_per_token, settings.calls_per_address, settings.wrong_per_address),
    }
    if settings.server_doctor:
        values["doctor"] = _doctor(settings, opens, values["monotonic"])
    rules = jwt.Rules(
        settings.jwt_secret,
        settings.jwt_jwks_url,
        settings.jwt_issuer,
        settings.jwt_audience,
        frozenset(settings.jwt_scopes),
    )
    rules.require_whole()
    if rules.are_any:
        values["recognisers"] = (jwt.Recogniser(rules, lambda: opens().clock.now(), values["monotonic"]),)
    if given.get("open_to_all"):
        values["hosts"] = LOOPBACK  # or a web page could reach the service under a name of its own (DNS rebinding)
    return Options(**{**values, **given})


def _doctor(settings: Settings, opens: Callable[[], World], ticks: Callable[[], float]) -> Callable[[World], Any]:
    """Return what examines the installation: at most once in some seconds, however many ask."""
    fresh = Fresh(lambda: examine_world(opens(), settings, os.environ), ticks, EXAMINED_EVERY)
    return lambda _: fresh.get()


def application(settings: Settings, opens: Callable[[], World], **given: Any) -> FastAPI:
    """Return the service over a store, with its console unless that is off, ready to be mounted or served."""
    app = build(opens, options_from(settings, opens, **given))
    if settings.console:
        from horae.console.install import install  # templates and catalogues are not needed without it

        install(app)
    return app


# -- the store -----------------------------------------------------------------------------------------------------


class Opening:
    """A store that is opened in the background, however long it takes; until then requests are refused (C-17)."""

    def __init__(self, opens: Callable[[], World]) -> None:
        self._opens = opens
        self._world: World | None = None
        self._problem: HoraeError | None = None
        self._tried = threading.Event()
        self._ended = False

    def __call__(self) -> World:
        if self._world is None:
            raise self._problem or StoreUnavailable("store_not_opened_yet")
        return self._world

    @property
    def trouble(self) -> str | None:
        """Why the store is not open yet; None when it is."""
        return None if self._world is not None else str(self._problem or "it has not answered yet")

    def start(self) -> None:
        """Begin to open, and wait a moment for the usual case; raise an error that waiting does not mend."""
        threading.Thread(target=self._open, name="horae-opening", daemon=True).start()
        self._tried.wait(FIRST_PATIENCE)
        if isinstance(self._problem, FATAL):
            self.stop()
            raise self._problem

    def stop(self) -> None:
        self._ended = True

    def _open(self) -> None:
        wait = 0.1
        while not self._ended and self._world is None:
            try:
                self._world = self._opens()
            except (HoraeError, OSError) as problem:
                if self._problem is None:
                    log.error("the store does not answer; trying again: %s", problem)
                self._problem = _as_ours(problem)
                self._tried.set()
                pause(wait)
                wait = min(5.0, wait * 2)
        if self._problem is not None and self._world is not None:
            log.info("the store answers")
        self._tried.set()


def _as_ours(problem: HoraeError | OSError) -> HoraeError:
    return problem if isinstance(problem, HoraeError) else StoreUnavailable("store_not_opened", problem=str(problem))


# -- serving -------------------------------------------------------------------------------------------------------


def refuse_open_door(host: str, open_to_all: bool) -> None:
    """Refuse to serve without authentication on an address that other machines reach."""
    if open_to_all and not is_loopback(host):
        raise NotAllowed("open_service_exposed", host=host)


class ServiceServer(HttpServer):
    """The server of the service: it reports its start, and at its end answers those who wait for work."""

    def __init__(
        self,
        app: FastAPI,
        listening: socket.socket,
        *,
        grace: timedelta = timedelta(seconds=30),
        proxies: tuple[str, ...] = (),
        started: Callable[[], None] = lambda: None,
        **further: Any,
    ) -> None:
        super().__init__(
            app,
            listening,
            grace=grace,
            proxies=proxies,
            timeout_keep_alive=KEEP_ALIVE,
            **further,
        )
        self._app = app
        self._tell_start = started

    @property
    def answered(self) -> int:
        return self.server_state.total_requests

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        waiting_room_of(self._app).close()  # long polls need no grace: this server hands out no more work
        await super().shutdown(sockets)
