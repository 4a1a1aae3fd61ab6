"""``horae worker module:app``: run an application's jobs; ``horae worker --tasks``: run users' tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.cli.installation.check import Config, load_application
from horae.cli.logs import LogFormat, LogLevel, start_chosen_logging
from horae.cli.process.server import add_built_in, with_alerts
from horae.cli.terminal import Terminal, command
from horae.cli.words import span
from horae.core.time.spans import span_from
from horae.errors import InvalidInput, MissingExtra, NeedsDatabase
from horae.settings import Settings, queues_from, read_setting

if TYPE_CHECKING:
    from horae.app import Horae
    from horae.runtime.worker.worker import Worker, WorkerSettings


KEPT = ("runs", "fires", "keys", "nodes")


def register(app: typer.Typer) -> None:
    examples = (
        "horae worker shop:app",
        "horae worker shop:app --queues mail=10,default=2",
        "horae worker --tasks --poll 5s --batch 10 --lease 120s",
        "HORAE_TOKEN=… horae worker shop:app --url https://horae.example",
        "horae worker shop:app --nats nats://10.0.0.1:4222",
    )
    command(app, "worker", by_url="flag", examples=examples)(worker)


def worker(
    terminal: Terminal,
    target: Annotated[
        str | None, typer.Argument(metavar="MODULE:APP", help="Where the application is; else $HORAE_APP.")
    ] = None,
    tasks: Annotated[
        bool, typer.Option("--tasks", help="Run users' tasks, webhooks and dispatches; needs no application.")
    ] = False,
    queues: Annotated[
        str | None,
        typer.Option(
            "--queues",
            metavar="A=N,B=N",
            help="Queues and slots; else all that the app declares and governance, 50 each.",
        ),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option("--lease", metavar="SPAN", help="How long a job is held unrenewed; else $HORAE_LEASE, else 30s."),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace",
            metavar="SPAN",
            help="How long to wait for running jobs when stopping; else $HORAE_GRACE, else 30s.",
        ),
    ] = None,
    poll: Annotated[
        str | None,
        typer.Option(
            "--poll",
            metavar="SPAN",
            help="How long to sleep at most before looking again; else $HORAE_POLL, else 60s. New work wakes it.",
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch", metavar="N", help="How many jobs of a queue to claim at a time; else $HORAE_BATCH, else 500."
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="WHAT=SPAN,…",
            help="How long to keep runs, fires, keys and nodes, as runs=90d,keys=14d; else $HORAE_KEEP_RUNS and so on.",
        ),
    ] = None,
    config: Config = None,
    nats: Annotated[
        str | None,
        typer.Option(
            "--nats",
            metavar="URL,…",
            help="Take jobs from a relay on these NATS servers and open no database; $HORAE_NATS is not read.",
        ),
    ] = None,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="End when the queues hold neither waiting nor running jobs.")
    ] = False,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", min=1, max=65535, metavar="PORT", help="Serve this worker's figures there."),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", metavar="ADDRESS", help="Where that port listens; it asks for no token.")
    ] = "127.0.0.1",
) -> None:
    """Run an application's jobs until Ctrl-C.

    With --tasks it runs users' tasks and needs no application. Ctrl-C and SIGTERM end it in order: nothing more is
    claimed, what runs may finish within the grace, the rest is cancelled and given back. A second signal ends at once.
    With --url or --nats it opens no database: it takes its jobs from that service, or from a relay on that message
    bus, executes them and lets them enqueue others, and nothing else.
    """
    if nats is not None and (terminal.url is not None or terminal.database is not None):
        raise InvalidInput("database_or_bus")
    if terminal.url is not None or nats is not None:
        _refuse_what_needs_a_database(tasks=tasks, until_empty=until_empty, keep=keep is not None)
    settings = terminal.settings
    chosen = replace(
        settings,
        queues=settings.queues if queues is None else queues_from(queues),
        lease=settings.lease if lease is None else span_from(lease, "lease"),
        grace=settings.grace if grace is None else span_from(grace, "grace"),
        poll=settings.poll if poll is None else read_setting("poll", poll, "--poll"),
        batch=settings.batch if batch is None else read_setting("batch", batch, "--batch"),
        **({} if keep is None else _read_keep(keep)),
        **({} if nats is None else {"nats": read_setting("nats", nats, "--nats")}),
    )
    if chosen.lease.total_seconds() < 1:
        raise InvalidInput("lease_under_a_second", lease=chosen.lease.total_seconds())
    start_chosen_logging(terminal, log_format, log_level)
    configured = replace(terminal, settings=chosen)
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    app = _for_tasks(configured, target, config) if tasks else load_application(configured, target, config, "worker")
    if nats is not None:
        app.use_bus(chosen.nats, stream=chosen.nats_stream, prefix=chosen.nats_prefix)
    _serve(configured, app, until_empty, metrics)


def _refuse_what_needs_a_database(**given: bool) -> None:
    options = [f"--{name.replace('_', '-')}" for name, is_given in given.items() if is_given]
    if options:
        raise NeedsDatabase("options_need_database", options=options)


def _for_tasks(terminal: Terminal, target: str | None, config: str | None) -> Horae:
    """Make an application of built-in jobs only (document 001's worker)."""
    from horae.cli.process.targets import bare_application

    if target is not None:
        raise InvalidInput("tasks_with_application")
    if config is not None:
        raise InvalidInput("tasks_with_config")
    try:
        import horae.outgoing  # noqa: F401 - only to see whether it can be
    except ImportError as problem:
        raise MissingExtra("tasks_extra_missing", problem=str(problem)) from problem
    return bare_application("tasks", terminal.settings)


def _serve(terminal: Terminal, app: Horae, until_empty: bool, metrics: tuple[str, int] | None) -> None:
    from horae.cli.process.foreground import Serving, run_to_its_end
    from horae.cli.process.targets import BareApplication
    from horae.core.jobs.job import SLOTS
    from horae.declare.declarations import raise_for

    settings = terminal.settings
    names = sorted(each.name for each in app.definitions)
    if not app.acts_on_service:
        add_built_in(app, settings)
    if isinstance(app, BareApplication):
        names = sorted(each.name for each in app.definitions)
    problems = app.problems()
    raise_for(problems)
    for each in problems:
        terminal.say(f"warning: {each}")
    queues = settings.queues or dict.fromkeys(app.served_queues, SLOTS)
    if not app.acts_on_service:
        app.wait_for_store()
        queues = with_alerts(queues, settings)
    worker = app.worker(_settings(settings, queues))
    serving = Serving(terminal, worker)
    close = None if metrics is None else _serve_metrics(app, *metrics)
    try:
        started = partial(_report_start, terminal, app, worker, names)
        ended = run_to_its_end(terminal, serving.run(until_empty=until_empty, started=started))
    finally:
        if close is not None:
            close()
        app.close()
    if ended:
        raise typer.Exit(ended)


def _read_keep(text: str) -> dict[str, Any]:
    """Read ``runs=90d,keys=14d`` as fields of the settings."""
    fields: dict[str, Any] = {}
    for part in (part.strip() for part in text.split(",")):
        what, equals, span_text = part.partition("=")
        if not equals or what not in KEPT:
            raise InvalidInput("keep_unreadable", text=part)
        fields[f"keep_{what}"] = read_setting(f"keep_{what}", span_text, f"--keep {what}")
    return fields


def _settings(settings: Settings, queues: Mapping[str, int]) -> WorkerSettings:
    from horae.actions.retention import Retention
    from horae.runtime.worker.worker import WorkerSettings

    return WorkerSettings(
        queues=queues,
        lease=settings.lease,
        grace=settings.grace,
        look_every=settings.poll,
        batch=settings.batch,
        retention=Retention.read(lambda name: getattr(settings, name)),
    )


def _serve_metrics(app: Horae, host: str, port: int) -> Callable[[], None]:
    """Serve Prometheus beside the work; return what stops it."""
    try:
        from horae.server.metrics import serve
    except ImportError:
        raise MissingExtra("metrics_extra_missing") from None
    return serve(app.figures, host=host, port=port)


def _report_start(terminal: Terminal, app: Horae, worker: Worker, names: list[str]) -> None:
    settings = worker.settings
    from horae.cli.process.targets import database_of

    where = "url" if app.acts_on_service else "database"
    url = terminal.url or (_shown_servers(terminal.settings.nats) if app.acts_on_service else database_of(app))
    unserved = sorted({each.queue for each in app.definitions if each.name in names} - set(settings.queues))
    terminal.say(f"Horae {settings.version} worker {worker.node_id} on {url}")
    terminal.say("  serves  " + ", ".join(f"{queue} ({slots} at once)" for queue, slots in settings.queues.items()))
    terminal.say("  knows   " + (", ".join(names) or "no job yet: declare one with @app.job(…)"))
    if unserved:
        terminal.say(f"  not served here, though its app declares jobs for it: {', '.join(unserved)}")
    terminal.say(f"  lease {span(settings.lease)}, grace {span(settings.grace)}; Ctrl-C ends it in order")
    event = {
        "event": "started",
        "worker": worker.node_id,
        where: url,
        "queues": dict(settings.queues),
        "jobs": names,
    }
    terminal.event(event)


def _shown_servers(servers: Sequence[str]) -> str:
    """Return addresses without what stands before the @, which may be a password."""
    return ",".join(f"{each.partition('://')[0]}://{each.partition('://')[2].rpartition('@')[2]}" for each in servers)
