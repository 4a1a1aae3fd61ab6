"""``horae server``: the HTTP service, without a worker."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.cli.logs import LogFormat, LogLevel, start_chosen_logging
from horae.cli.terminal import Terminal, command
from horae.errors import MissingExtra
from horae.settings import Settings
from horae.version import VERSION

if TYPE_CHECKING:
    from horae.app import Horae
    from horae.runtime.worker.hosted import Hosted
    from horae.server.process import ServiceServer

Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen; else $HORAE_HOST, else 127.0.0.1.")
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", metavar="N", min=0, max=65535, help="Its port; else $HORAE_PORT, else 8765. 0 picks a free one."
    ),
]
NoAuth = Annotated[bool, typer.Option("--no-auth", help="Ask for no token; only on this machine's own addresses.")]
NoChores = Annotated[
    bool,
    typer.Option(
        "--no-chores",
        help="Only answer requests; else $HORAE_SERVER_CHORES. Then schedules fire, lost jobs come back and timeouts "
        "end only where a `horae worker` with a database runs.",
    ),
]


def register(app: typer.Typer) -> None:
    examples = ("horae server --port 8080", "horae server shop:app --log-format json")
    command(app, "server", examples=examples)(server)


def server(
    terminal: Terminal,
    target: Annotated[
        str | None, typer.Argument(metavar="MODULE:APP", help="An application whose jobs are known by name.")
    ] = None,
    host: Host = None,
    port: Port = None,
    no_auth: NoAuth = False,
    no_chores: NoChores = False,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
) -> None:
    """Serve the HTTP API until Ctrl-C.

    Jobs are run by workers, in this or other languages: `horae worker`, or over HTTP. What else a store needs happens
    here: due schedules fire, lost jobs are handed on, timeouts are served, the audit is sealed, old rows are deleted.
    Servers and workers take turns. Ctrl-C and SIGTERM end it in order: nothing more is accepted, what is being answered
    is finished. A store that does not answer yet is waited for.
    """
    start_chosen_logging(terminal, log_format, log_level)
    settings = settings_at(terminal, host, port)
    chosen = replace(terminal, settings=replace(settings, server_chores=settings.server_chores and not no_chores))
    _serve(chosen, load_or_bare(chosen, target), no_auth)


def settings_at(terminal: Terminal, host: str | None, port: int | None) -> Settings:
    """Return the settings, with the address from the command line."""
    settings = terminal.settings
    return replace(settings, host=settings.host if host is None else host, port=settings.port if port is None else port)


def load_or_bare(terminal: Terminal, target: str | None) -> Horae:
    """Return the application named, or one with nothing but the built-in jobs; the built-in ones are added to both."""
    from horae.cli.process.targets import application, bare_application

    name = target or terminal.settings.app
    app = bare_application("server", terminal.settings) if name is None else application(name, terminal.database)
    add_built_in(app, terminal.settings)
    return app


def add_built_in(app: Horae, settings: Settings) -> None:
    """Add the jobs of agents, and those that call out where their extra is installed; the application's own stay."""
    from horae.declare.attend import register as register_attention

    register_attention(app)
    if settings.nats:
        from horae.bus import dispatch, publish

        names: dict[str, Any] = {"stream": settings.nats_stream, "prefix": settings.nats_prefix}
        names["replicas"] = settings.nats_replicas
        publish(app, settings.nats, **names)
        if settings.nats_dispatch:
            dispatch(app, settings.nats, **names)
    try:
        from horae.outgoing import Outgoing
        from horae.outgoing import register as register_outgoing
        from horae.outgoing.encryption import sealer_from
    except ImportError as problem:
        if settings.alert_webhook_url or settings.heartbeat_url:  # or alerts would be lost in silence
            raise MissingExtra("alerts_extra_missing", problem=str(problem)) from problem
        return
    register_outgoing(app, Outgoing.read(sealer=sealer_from({"HORAE_SECRET_KEY": settings.secret_key or ""})))
    if settings.alert_webhook_url is not None:
        from horae.alerts.rules import QUEUE, watch

        watch(app, settings.alert_webhook_url, stalled_after=settings.alert_stalled_after, queue=QUEUE)
    if settings.heartbeat_url is not None:
        from horae.alerts.heartbeat import beat

        beat(app, settings.heartbeat_url, every=settings.heartbeat_every)


def with_alerts(queues: Mapping[str, int], settings: Settings) -> dict[str, int]:
    """Return the queues that a worker serves: those named, and that of the alerts where some are sent."""
    from horae.alerts.rules import QUEUE, SLOTS

    return {**queues, **({QUEUE: SLOTS} if settings.alert_webhook_url is not None else {})}


def send_alerts(app: Horae, settings: Settings) -> Hosted | None:
    """Deliver alerts from this process too, so that dead letters are reported where no worker runs (S0-20).

    It runs nothing but the webhooks of alerts. Any number of processes may do so: an alert is a job with a key, so it
    is made and delivered once. What there is to report is found by a chore.
    """
    from horae.alerts import sender
    from horae.clock import SystemDice
    from horae.runtime.worker.hosted import Hosted

    if settings.alert_webhook_url is None:
        return None
    return Hosted(
        lambda: sender(
            app.world,
            app.definitions.find,
            (),
            version=VERSION,
            grace=settings.grace,
        ),
        SystemDice(),
    )


def _link_command(settings: Settings, port: int) -> str:
    """Return the command that prints a link to the console at this port, typed in a shell that knows no setting."""
    is_usual = bool(settings.public_url) or port == Settings().port
    return "horae console link" if is_usual else f"HORAE_PORT={port} horae console link"


def _serve(terminal: Terminal, app: Horae, no_auth: bool) -> None:
    settings = terminal.settings
    opens: list[Any] = []
    service = app.asgi(settings, opens=lambda: opens[0](), open_to_all=no_auth)
    from horae.runtime.systemd import READY, notify
    from horae.server.http_server import run
    from horae.server.process import Opening, ServiceServer, refuse_open_door
    from horae.server.socket import listen, url_of

    refuse_open_door(settings.host, no_auth)
    listening = listen(settings.host, settings.port)
    url = url_of(listening)
    opening = Opening(lambda: app.world)
    opens.append(opening)
    from horae.cli.process.targets import database_of

    database = database_of(app)

    def report_start() -> None:
        terminal.say(f"Horae {service.version} serves {database}")
        terminal.say(f"  at      {url}    its API: {url}/docs")
        if settings.console and not no_auth:
            terminal.say(
                f"  console {url}/console    log in with: {_link_command(settings, listening.getsockname()[1])}"
            )
        if no_auth:
            terminal.say("  warning: no token is asked for; every program on this machine may do everything")
        if opening.trouble is not None:
            terminal.say(
                f"  warning: the store does not answer yet ({opening.trouble}); {url}/readyz tells when it does"
            )
        terminal.say("  Ctrl-C ends it in order")
        host, number = listening.getsockname()[:2]
        event = {"event": "started", "url": url, "host": host, "port": number, "database": database}
        terminal.event({**event, "auth": not no_auth, "ready": opening.trouble is None})
        notify(READY, f"STATUS=serves {url}")

    http = ServiceServer(
        service, listening, grace=settings.grace, proxies=settings.trusted_proxies, started=report_start
    )
    try:
        opening.start()
        run(_until_signal(terminal, http, app))
    finally:
        opening.stop()
        listening.close()
        app.close()


async def _until_signal(terminal: Terminal, http: ServiceServer, app: Horae) -> None:
    """Serve until a signal; a second one ends at once."""
    import asyncio
    import os
    import signal

    from horae.cli.failures import Exit
    from horae.clock import SystemClock
    from horae.runtime.systemd import STOPPING, notify, supervised

    def on_signal(number: signal.Signals) -> None:
        if http.should_exit:
            terminal.say(f"{number.name} again: ended at once")
            terminal.event({"event": "ended_at_once", "signal": number.name})
            os._exit(Exit.INTERRUPTED)
        terminal.say(f"\n{number.name}: accepts nothing more, finishes what is being answered; once more ends at once")
        terminal.event({"event": "stopping", "signal": number.name})
        notify(STOPPING)
        http.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    loop.add_signal_handler(signal.SIGHUP, lambda: logging.getLogger("horae.server").info("SIGHUP: nothing to reload"))
    alerting = send_alerts(app, terminal.settings)
    try:
        async with supervised(SystemClock()):
            await http.run_until_stopped()
    finally:
        if alerting is not None:
            await alerting.stop()
    terminal.say(f"ended: {http.answered} requests answered")
    terminal.event({"event": "ended", "requests": http.answered})
