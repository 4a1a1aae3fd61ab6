"""The common part of all commands: shared options, and the output of results and messages.

stdout is the result, stderr has the messages. With ``--json`` stdout is one JSON document, also when the command fails;
for commands that go on (``worker``, ``up``) it is one document for each event and line.
"""

from __future__ import annotations

import getpass
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from horae.cli.words import incomplete_text, table
from horae.core.dataclass import dataclass
from horae.errors import InvalidInput, NotFound
from horae.settings import DEFAULT_URL, Settings, is_on, unknown_names
from horae.words.languages import Language, from_environment

if TYPE_CHECKING:
    from horae.ports.world import Tracing, World

Db = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="The database; else $HORAE_DATABASE_URL, else a SQLite file in .horae/."),
]
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Ask this service instead of opening a database; else $HORAE_URL."),
]
Token = Annotated[
    str | None, typer.Option("--token", metavar="TOKEN", help="The token for it; better in $HORAE_TOKEN.")
]
OnlyUrl = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Work for this service and open no database; $HORAE_URL is not read."),
]
NoUrl = Annotated[str | None, typer.Option("--url", hidden=True)]
NoToken = Annotated[str | None, typer.Option("--token", hidden=True)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but the result.")]
Lang = Annotated[
    str | None,
    typer.Option("--lang", metavar="en|zh", help="The language of sentences; else $HORAE_LANG, or that of the shell."),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colours; $NO_COLOR does the same.")]
SHARED: tuple[tuple[str, Any, Any], ...] = (
    ("db", Db, None),
    ("url", Url, None),
    ("token", Token, None),
    ("as_json", Json, False),
    ("quiet", Quiet, False),
    ("no_color", NoColor, False),
    ("lang", Lang, None),
)
ByUrl = bool | Literal["flag"]
NEAR_ONLY = {"url": NoUrl, "token": NoToken}  # for commands that no service can do in our place
STATE_COLOURS = {"queued": "yellow", "running": "cyan", "succeeded": "green", "dead": "red", "cancelled": "magenta"}


@dataclass(frozen=True)
class Terminal:
    """The output of a command, and the values of the shared options."""

    settings: Settings
    database: str | None = None  # only where the command line itself named it
    url: str | None = None  # the service to ask instead of a database
    token: str | None = field(default=None, repr=False)
    is_json: bool = False
    is_quiet: bool = False
    is_plain: bool = False
    language: Language = "en"
    missing: set[str] = field(default_factory=set, compare=False)  # databases of a cluster that gave no answer
    changed: list[int] = field(default_factory=list, compare=False)  # of how many they are, after a change

    def notice_missing(self, databases: Iterable[str], count: int | None) -> None:
        """Note databases of a cluster that gave no answer, and after a change of how many they are."""
        self.missing.update(databases)
        self.changed.extend([] if count is None else [count])

    def result(self, value: Mapping[str, Any], text: str) -> None:
        """Print the result on stdout, as JSON or as text; where databases of a cluster gave no answer, name them."""
        if self.missing:
            value = {**value, "incomplete": sorted(self.missing)}
        self.out(dump_json(value) if self.is_json else text)
        if self.missing and not self.is_json:
            count = max(self.changed, default=None)
            print(incomplete_text(self.missing, self.language, count), file=sys.stderr, flush=True)

    def event(self, value: Mapping[str, Any]) -> None:
        """Print one line of JSON about a command that goes on, where JSON is wanted."""
        if self.is_json:
            self.out(json.dumps(value, ensure_ascii=False, default=str))

    def out(self, text: str) -> None:
        print(text.rstrip("\n"), flush=True)

    def say(self, text: str) -> None:
        """Print a message on stderr, unless --quiet was given."""
        if not self.is_quiet:
            print(text, file=sys.stderr, flush=True)

    def mention_more(self, cursor: str | None) -> None:
        """Say how to see the next page, where there is one."""
        if cursor and not self.is_json:
            self.say(f"There may be more: --cursor {cursor}")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Align columns; colour states where colours are wanted."""
        head, *body = table(headers, rows)
        lines = [self.faint("  ".join(head).rstrip())]
        lines += ["  ".join(self.state(cell) for cell in row).rstrip() for row in body]
        return "\n".join(lines)

    def state(self, cell: str) -> str:
        colour = STATE_COLOURS.get(cell.strip())
        return cell if colour is None else self._style(cell, fg=colour)

    def faint(self, text: str) -> str:
        return self._style(text, dim=True)

    def bold(self, text: str) -> str:
        return self._style(text, bold=True)

    def _style(self, text: str, **style: Any) -> str:
        return text if self.is_plain else typer.style(text, **style)


def dump_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def command(
    group: typer.Typer, name: str, *, by_url: ByUrl = False, examples: Sequence[str] = (), **options: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function ``(terminal, …)`` as a command that also takes the shared options.

    With *by_url* it works on the verbs of :mod:`horae.cli.verbs`, so that a service can do it in our place; with
    ``"flag"`` only where ``--url`` says so, whatever the environment says. *examples* stand below its help.
    """
    if examples:
        options["epilog"] = "\b\n" + "\n".join(["Examples:", *(f"  {each}" for each in examples)])
    known = {each: kind if by_url else NEAR_ONLY.get(each, kind) for each, kind, _ in SHARED}
    if by_url == "flag":
        known["url"] = OnlyUrl

    def register(function: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            shared_values = {each: given.pop(each) for each, _, _ in SHARED}
            function(terminal_for(by_url=by_url, **shared_values), **given)

        def read() -> None:
            hints = get_type_hints(function, include_extras=True)
            own = [
                each.replace(annotation=hints[each.name])
                for each in list(inspect.signature(function).parameters.values())[1:]
            ]
            keyword = inspect.Parameter.KEYWORD_ONLY
            shared = [inspect.Parameter(each, keyword, default=of, annotation=known[each]) for each, _, of in SHARED]
            with_signature(run, function, [*own, *shared])

        run.__doc__, run.__name__ = function.__doc__, function.__name__
        PARAMETERS[run] = read
        group.command(name, **options)(run)
        return function

    return register


# How the parameters of each command are read, which takes a millisecond: only that of the command that was typed is.
PARAMETERS: dict[Callable[..., None], Callable[[], None]] = {}


def with_signature(
    run: Callable[..., None], function: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Give *run* the name and the help of *function*, and these parameters, by name only, for Typer to read."""
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    run.__doc__, run.__name__ = function.__doc__, function.__name__
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # mypy does not know it of functions
    run.__annotations__ = {each.name: each.annotation for each in keywords}
    return run


def terminal_for(
    db: str | None,
    url: str | None,
    token: str | None,
    as_json: bool,
    quiet: bool,
    no_color: bool,
    lang: str | None,
    *,
    by_url: ByUrl = False,
) -> Terminal:
    settings = Settings.read(os.environ)
    if db and url:
        raise InvalidInput("database_or_service")
    if url and not by_url:
        raise InvalidInput("needs_database_here")
    if db:
        settings = replace(settings, database_url=db)
    service = url or (settings.url if by_url is True and not db else None)
    plain = no_color or bool(os.environ.get("NO_COLOR")) or as_json or not sys.stdout.isatty()
    language = language_from(lang) if lang else from_environment(os.environ)
    terminal = Terminal(settings, db, service, token or settings.token, as_json, quiet, plain, language)
    for name, meant in unknown_names(os.environ).items():
        terminal.say(f"warning: {name} is not a setting of Horae" + (f"; did you mean {meant}?" if meant else "."))
    return terminal


def language_from(text: str) -> Language:
    match text:
        case "en" | "zh":
            return text
    raise InvalidInput("language_unknown", language=text)


def actor(terminal: Terminal) -> str:
    return terminal.settings.actor or f"cli/{_login()}"


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        return "unknown"


@contextmanager
def opened(
    terminal: Terminal,
    *,
    may_create: bool = False,
    url: str | None = None,
    in_cluster: bool = True,
    held_too: bool = False,
) -> Iterator[World]:
    """Open the store behind a command, and close it at the end. Only with *may_create* is a SQLite file made.

    *url* names another database than the settings; without *in_cluster* it is opened by itself, whatever it belongs to.
    With *held_too* also databases of a cluster that were restored and are not settled yet.
    """
    from horae.actions.rules import job_rules
    from horae.clock import SystemDice, clock_of, zone_database_version
    from horae.core.retention import Retention
    from horae.ports.world import World
    from horae.stores.cluster.opening import with_cluster
    from horae.stores.opening import create_store_engine, open_store

    settings = terminal.settings
    database = url or settings.database_url
    if not may_create:
        refuse_missing_file(database)
    engine = create_store_engine(database, settings.synchronous, settings.timeouts)
    store = open_store(engine, settings.timeouts)
    close = store.close
    try:  # not through an application, whose import brings everything that runs jobs
        dice = SystemDice()
        alone = World(
            store,
            clock_of(store),
            dice,
            shortest_interval=settings.shortest_interval,
            tzdata=zone_database_version(),
            tracing=tracing_of(os.environ),
            rules=job_rules(dice),
            retention=Retention.read(lambda name: getattr(settings, name)),
        )
        limits, urls = settings.timeouts, settings.cluster_urls
        world = alone
        if in_cluster:
            world = with_cluster(alone, store, urls=urls, make_clock=clock_of, timeouts=limits, held_too=held_too)
        close = world.store.close
        yield world
        if may_create and database == DEFAULT_URL:
            terminal.say(f"in {DEFAULT_URL}; --db or HORAE_DATABASE_URL names another database")
    finally:
        close()


def tracing_of(environment: Mapping[str, str]) -> Tracing | None:
    """Trace what a command enqueues, where the environment asks for it."""
    if not is_on(environment, "HORAE_OTEL"):
        return None
    from horae.telemetry import OpenTelemetry

    return OpenTelemetry()


def refuse_missing_file(url: str) -> None:
    file = sqlite_file(url)
    if file is not None and not file.exists():
        raise NotFound("database_missing_here", path=str(file))


def sqlite_file(url: str) -> Path | None:
    """Return the file behind a URL, where the database is a file."""
    from horae.stores.opening import read_url, sqlite_path

    return sqlite_path(read_url(url))


def redact_url(url: str) -> str:
    """Return a URL without its password, so that it may be printed."""
    from horae.stores.opening import read_url

    return read_url(url).render_as_string(hide_password=True)
