"""Writes the reference pages that are generated from the code: `make docs`.

A page is a function that returns its text; add it to PAGES. `tests/docs` fails when a page on disk is not what the code
says.
"""

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Any

import typer

import horae
import horae.core
import horae.testing
from horae import errors
from horae.api.access.values import Token as PublicToken
from horae.api.attention import values as attention
from horae.api.jobs.room import Job as PublicJob
from horae.api.jobs.room import Run as PublicRun
from horae.api.operation import Method, Operation, operations_of
from horae.api.queues import Queue as PublicQueue
from horae.api.queues import RunningLimit as PublicLimit
from horae.api.schedules.values import Fire as PublicFire
from horae.api.schedules.values import Schedule as PublicSchedule
from horae.api.values import enrich, to_json, to_public
from horae.cli.failures import CODES, MEANING
from horae.cli.main import command_tree
from horae.cli.schedules.explain import effect_shape
from horae.cli.terminal import SHARED
from horae.core.attention.lanes import Event, Lane, Line, Task, TaskWait
from horae.core.jobs.job import Job, Run
from horae.core.jobs.running_limits import RunningLimit
from horae.core.machine import Machine
from horae.core.schedules.notes import effects
from horae.core.schedules.rules import Cron
from horae.core.schedules.schedule import Fire, Schedule
from horae.ports.queues import Queue
from horae.service.problems import OWN_CODES
from horae.settings import Settings
from horae.words.sentences import ROOMS
from scripts.announcements import RECORD, missing_lines, record_page
from scripts.contents import index_page
from scripts.description import description
from scripts.governance_tables import explanation_page
from scripts.job_options import job_options_page
from scripts.markdown import NOTE, escaped
from scripts.public_names import listing
from scripts.requirements import requirements_page
from tests.support.rooms import rooms_of

PUBLIC_MODULES = (
    "horae", "horae.testing", "horae.limits", "horae.webhooks", "horae.alerts", "horae.bus", "horae.telemetry",
    "horae.alembic",
)  # fmt: skip
UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1, "ms": 0.001}
REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


def machines() -> Iterator[Machine[Any]]:
    """Return every state machine of the core, in the order of its modules."""
    for module in pkgutil.walk_packages(horae.core.__path__, "horae.core."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Machine):
                yield value


def states_page() -> str:
    sections = [NOTE, "# States", "What is not drawn is refused."]
    for machine in {machine.name: machine for machine in machines()}.values():
        rows = [f"| {before} | {event} | {after} |" for (before, event), after in machine.arrows.items()]
        sections += [
            f"## {machine.name.capitalize()}",
            f"```mermaid\n{machine.diagram()}\n```",
            "\n".join(["| From | Event | To |", "|---|---|---|", *rows]),
        ]
    return "\n\n".join(sections) + "\n"


def errors_page() -> str:
    family = [
        error
        for error in vars(errors).values()
        if inspect.isclass(error) and issubclass(error, errors.HoraeError) and error.__module__ == errors.__name__
    ]
    rows = [f"| `{error.__name__}` | `{error.code}` | {first_sentence(error)} |" for error in family]
    tree = inspect.cleandoc(errors.__doc__ or "").partition("::\n\n")[2].partition("\n\nEvery")[0]
    table = "\n".join(["| Error | Code | Meaning |", "|---|---|---|", *rows])
    promise = (
        "Every error has a stable code; every message says what happened and what to do next. Over HTTP an error is a "
        "problem document (RFC 9457): `code` is the code below, and `type` is `urn:horae:error:` and the same code. "
        "That is a name and no address; it never changes, and this page says what it means.\n\n"
        "Most errors also have a *reason*, which says more precisely what is wrong and is as stable as the code, and "
        "*facts*, which say about what: `error.reason` and `error.facts` in Python, `reason` and `facts` in the "
        "problem document and with `--json`. The sentence (`str(error)`, `detail`) is made of them; it is for people "
        "and may change. What a database said stays in the log of the service, so there its errors have neither."
    )
    own = "\n".join(
        ["| Code | Meaning |", "|---|---|", *(f"| `{code}` | {text} |" for code, text in OWN_CODES.items())]
    )
    parts = [NOTE, "# Errors", promise, f"```text\n{inspect.cleandoc(tree)}\n```", table]
    return "\n\n".join([*parts, "## Of the HTTP service alone", own, "## Reasons", *reasons()]) + "\n"


def reasons() -> Iterator[str]:
    """Yield a table of reasons and sentences for each room; the facts are what stands in braces."""
    for room, table in ROOMS.items():
        rows = [f"| `{reason}` | {plain_template(text)} |" for reason, text in sorted(table.items())]
        yield f"### {room.replace('_', ' ').capitalize()}"
        yield "\n".join(["| Reason | Sentence |", "|---|---|", *rows])


def plain_template(text: str) -> str:
    """Return a sentence with the bare names of its facts, without how they are written."""
    parts = [literal + (f"{{{name}}}" if name else "") for literal, name, _, _ in Formatter().parse(text)]
    return " ".join("".join(parts).split())


def first_sentence(thing: Any) -> str:
    return marked(" ".join(inspect.cleandoc(getattr(thing, "__doc__", None) or "").partition("\n\n")[0].split()))


# -- the command line ----------------------------------------------------------------------------------------------


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Return every command with its full name, in the order of the tree."""
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def command_line_page() -> str:
    tree = list(commands(typer.main.get_command(command_tree()), "horae"))
    shared = {name for name, _, _ in SHARED}
    everywhere = [parameter for parameter in dict(tree)["horae job list"].params if parameter.name in shared]
    listing = "\n".join(f"{name:<24} {command.get_short_help_str(200)}" for name, command in tree)
    sections = [
        NOTE,
        "# Command line",
        f"```text\n{listing}\n```",
        "stdout is the result, stderr is the talk. Colours only on a terminal. `horae COMMAND --help` shows all of "
        "this, `horae --install-completion` completes names in your shell, `horae --version` prints the version.",
        "Every command also takes:",
        option_table(everywhere),
        f"`--url` and `--token` are for commands that a service can do in our place: {served(tree)}. `$HORAE_URL` "
        "means the same, and `--db` wins over it. The others need the database itself, and say so.",
        "Spans are written `250ms`, `90s`, `5m`, `2h`, `1d`; instants `2030-01-07T06:00:00Z` or with another offset. "
        "What looks for something does not create a SQLite file; `job enqueue`, `schedule add`, `token create`, "
        "`attention add` and `post` with `--lane`, `reload`, `db migrate`, `up`, `worker`, `server` and `mcp` do.",
        *(command_section(name, command, shared) for name, command in tree),
        exit_codes_section(),
        json_section(),
    ]
    return "\n\n".join(sections) + "\n"


def served(tree: list[tuple[str, Any]]) -> str:
    """Return the commands that take ``--url``."""
    names = [name for name, command in tree if any(each.name == "url" and not each.hidden for each in command.params)]
    return ", ".join(f"`{name.removeprefix('horae ')}`" for name in names)


def command_section(name: str, command: Any, shared: set[str]) -> str:
    own = [parameter for parameter in command.params if parameter.name not in shared and parameter.name != "help"]
    words = [argument(parameter) for parameter in own if parameter.param_type_name == "argument"]
    parts = [f"## `{' '.join([name, *words])}`", inspect.cleandoc(command.help or "")]
    return "\n\n".join([*parts, option_table(own)] if own else parts)


def argument(parameter: Any) -> str:
    """``NAME``, ``[NAME]`` where it may be left out, ``[NAME]...`` where it may come more than once."""
    name = parameter.metavar if parameter.required else f"[{parameter.metavar}]"
    return f"{name}..." if parameter.nargs == -1 else name


def option_table(parameters: list[Any]) -> str:
    rows = []
    for each in parameters:
        is_argument = each.param_type_name == "argument"
        names = argument(each) if is_argument else ", ".join([*each.opts, *each.secondary_opts])
        value = f" {each.metavar}" if each.metavar and not is_argument else ""
        default = f" Default: {each.default}." if each.default not in (None, False, "", [], ()) else ""
        rows.append(f"| `{escaped(names + value)}` | {escaped(each.help or '')}{default} |")
    return "\n".join(["| | |", "|---|---|", *rows])


def exit_codes_section() -> str:
    errors_of = {code: ", ".join(f"`{kind.code}`" for kind, given in CODES if given is code) for code in MEANING}
    rows = [f"| {int(code)} | {meaning} | {errors_of[code]} |" for code, meaning in MEANING.items()]
    table = "\n".join(["| Code | Means | [Errors](errors.md) of these kinds |", "|---|---|---|", *rows])
    one = "No error of Horae shows a traceback."
    return f"## Exit codes\n\n{table}\n\n{one}"


def json_section() -> str:
    now = datetime(2030, 1, 7, 6, tzinfo=UTC)
    job = Job(
        12, "send-receipt", {"order_id": 42}, "queued", "mail", "medium", now, now, now, timeout=timedelta(minutes=1)
    )
    run = Run(12, 1, "failed", 0, "send-receipt", "mail", "system", "host:1:ab", now, now, "ConnectionError: …")
    rows = [
        ("`job enqueue`, `rerun`", '`{"id", "state", "run_at", "deduplicated": bool, "late": bool}`'),
        ("`job list`", '`{"items": [JOB], "next_cursor": for --cursor, or null}`'),
        ("`job show`", '`{"job": JOB, "why": [WHY], "runs": [RUN]}`'),
        (
            "`job logs`",
            '`{"items": [{"run_id", "attempt", "lines": [{"at", "level", "text"}], "dropped"}]}`; with `--follow` one '
            "such item in a line for each attempt that ends",
        ),
        ("`job watch`", "a JOB in a line for each change, the last one when it has ended"),
        (
            "`top`",
            '`{"at", "overview", "queues", "workers", "running": [JOB], "rates"}`; without `--once` one in a line for '
            "each look",
        ),
        ("`job wait`", "`JOB`"),
        (
            "`job cancel`, `revive`, `reschedule`",
            'one job: `JOB`; several or `--where`: ACT; with `--dry-run`: `{"dry_run": true, "verb", "filter", '
            '"matched", "more": bool, "first": [JOB]}`',
        ),
        ("`job retry`", "`JOB`"),
        ("`act list`", '`{"items": [ACT], "next_cursor": for --cursor, or null}`'),
        (
            "`act show`, `pause`, `resume`, `cancel`, `undo`, `wait`",
            'ACT: `{"id", "verb", "state", "filter", "matched", "more", "changed", "skipped", "skipped_for": {reason: '
            'count}, "skipped_first": {id: reason}, "reason", "actor", …}`',
        ),
        ("`batch list`", '`{"items": [BATCH], "next_cursor": for --cursor, or null}`'),
        (
            "`batch show`, `wait`, `cancel`",
            'BATCH: `{"id", "name", "state", "total", "open", "succeeded", "failed", "on_end", "on_success", '
            '"on_failure", "created_at", "ended_at", "cancel_reason", …}`',
        ),
        ("`schedule list`", '`{"items": [SCHEDULE], "next_cursor": for --cursor, or null}`'),
        (
            "`schedule show`",
            '`{"schedule": SCHEDULE with "runs": {"run_count", "fail_count", "last_outcome", …} and "why": [WHY], '
            '"history": [FIRE], "versions": [{"at", "actor", "verb", "reason", "before", "after"}]}`',
        ),
        (
            "`schedule add`, `change`, `pause`, `resume`",
            'SCHEDULE; a group: `{"group", "changed": [key]}`',
        ),
        ("`schedule history`", '`{"items": [FIRE], "next_cursor": for --cursor, or null}`'),
        ("`schedule trigger`", '`{"key", "triggered": bool, "job_id": id or null, "reason", "fire": FIRE}`'),
        ("`schedule preview`", '`{"key", "fires": [instant]}`'),
        (
            "`schedule next`",
            '`{"words", "zone", "next": [NEXT]}`, where NEXT is `{"at": in UTC, "local": in the zone}`',
        ),
        (
            "`schedule explain`",
            '`{"words", "language", "zone", "kind", "expression", "previous": NEXT, "next": [NEXT], "clocks": [CLOCK], '
            '"warnings": '
            '[{"code", "text"}]}`; for cron also `fixed_time`, `day_match`, `gap`, `fold`, `lenient`',
        ),
        (
            "`schedule backfill`",
            '`{"dry_run": bool, "missing", "present": fires that became a job already, "fires": [up to 1000 instants], '
            '"job_ids": [id]}`',
        ),
        ("`schedule delete`", '`{"dry_run": bool, "verb": "delete", "schedule": SCHEDULE}`'),
        (
            "`status`",
            '`{"overview": as of `GET /overview`, "next_fires": [{"at", "key", "owner", "handler", "queue"}]}`',
        ),
        ("`watch`", 'a line for each change: `{"at", "parts": [name]}`'),
        ("`workers list`", '`{"items": [WORKER]}`, a WORKER as `GET /workers` gives it'),
        ("`workers show`, `drain`, `resume`", "WORKER"),
        (
            "`expectation list`",
            '`{"items": [MISSED RUN], "next_cursor"}`, a MISSED RUN as `GET /expectations` gives it',
        ),
        ("`calendar list`", '`{"items": [CALENDAR]}`, a CALENDAR as `GET /calendars` gives it'),
        ("`calendar show`", "CALENDAR with `schedules`"),
        ("`calendar set`", "CALENDAR"),
        ("`calendar delete`", '`{"name", "deleted": true}`'),
        (
            "`import crontab`, `celery`, `django-celery-beat`, `apscheduler`",
            '`{"dry_run": bool, "counts": {"new", "changed", "unchanged", "refused"}, "entries": [{"origin", "key", '
            '"status", "words", "schedule": its fields, "enabled", "changes": [field], "notes": [{"code", "text"}], '
            '"problem": {"code", "text"} or null}]}`',
        ),
        ("`view list`", '`{"items": [VIEW]}`, a VIEW as `GET /views` gives it'),
        ("`view save`, `share`", "VIEW"),
        ("`view delete`", '`{"id", "deleted": true}`'),
        ("`queue list`", '`{"items": [QUEUE with "jobs": {state: count} and "workers": [id]]}`'),
        ("`queue show`, `set`, `pause`, `resume`, `quiet`, `limit`", "QUEUE"),
        ("`owner list`, `show`, `set`", "OWNER, as `GET /owners` gives them; with `--quiet-hours` HOURS"),
        ("`owner quiet`", "HOURS, as `GET /quiet-owners` gives them"),
        (
            "`stats`",
            '`{"by", "items": [FIGURES]}`; over time also `"name"` and `"grain"`. FIGURES are those of '
            "`GET /statistics/{by}`, spans in seconds",
        ),
        (
            "`object rollback`",
            '`{"about", "state": "dry_run", "open" or "done", "id", "found", "moved", "final", "first": [reference]}`',
        ),
        (
            "`object propose`",
            '`{"id", "created", "object": OBJECT}`, an OBJECT as `GET /governance/objects/{id}` gives it',
        ),
        (
            "`object list`, `recall`",
            '`{"items": [OBJECT]}`; recalled ones with their content, and whether they may be used',
        ),
        (
            "`object show`, `use`, `conclude`, `verify`, `contest`, `clear`, `reject`, `archive`, `reinstate`, "
            "`supersede`, `retract`",
            "OBJECT",
        ),
        ("`object evidence`", "the piece of evidence, and the OBJECT"),
        ("`object why`", "the state, what comes next, and why"),
        ("`object history`", '`{"items": [ENTRY]}`, an ENTRY as `GET /governance/objects/{id}/history` gives it'),
        ("`object links`", '`{"rests_on": [OBJECT], "carries": [OBJECT], "decisions": [DECISION], "more": bool}`'),
        ("`object versions`", '`{"items": [VERSION]}`, as `GET /governance/objects/{id}/versions` gives it'),
        ("`governance status`", "objects by kind and state, those that are due or late, and open reviews"),
        ("`attention overview`", "the lanes with their numbers, as `GET /attention/overview` gives them"),
        ("`attention story`", "the task, its waits and facts, as `GET /attention/{lane}/tasks/{id}/story` gives it"),
        ("`schedule timetable`", "fires by hour, as `GET /forecast/timetable` gives them"),
        ("`object forecast`", '`{"items": [{"at", "action", "rule", "events", "state"}]}`'),
        ("`policy show`, `set`", "POLICY, as `GET /governance/policies/{kind}` gives it"),
        ("`policy list`", '`{"items": [POLICY]}`'),
        ("`governance report`", "REPORT, as `GET /governance/report` gives it"),
        ("`governance replan`", "how many objects were looked at and planned anew"),
        ("`console link`", '`{"url", "expires_at"}`'),
        ("`object erase`", '`{"objects", "jobs", "attention", "more": bool}`'),
        ("`decide on`, `show`", "DECISION, as `GET /governance/decisions/{id}` gives it"),
        ("`decide list`", '`{"items": [DECISION]}`'),
        ("`persona set`, `show`", "PERSONA, as `GET /governance/personas/{agent}` gives it"),
        ("`persona list`", '`{"items": [PERSONA]}`'),
        ("`budget show`, `set`, `adjust`", "BUDGET, as `GET /governance/budgets/{name}/{unit}` gives it"),
        ("`budget list`", '`{"items": [BUDGET]}`'),
        (
            "`budget history`",
            '`{"items": [{"starts_at", "capacity", "settled", "reserved", "left", "overdrawn", "put_backs"}]}`',
        ),
        ("`persona history`", '`{"items": [{"id", "at", "actor", "reason", "boundaries", "values", "archived"}]}`'),
        ("`review list`", '`{"items": [REVIEW]}`, a REVIEW as `GET /governance/reviews/{id}` gives it'),
        ("`review show`, `ask`, `answer`", "REVIEW"),
        ("`errors list`", '`{"items": [GROUP]}`, a GROUP as `GET /errors` gives it'),
        ("`errors show`, `mute`, `unmute`", "GROUP"),
        ("`errors retry`", "ACT, as `act show` gives it; with `--dry-run` as `job revive --dry-run`"),
        (
            "`retention show`, `set`",
            '`{"runs", "fires": seconds, "rules": [{"queue", "outcome", "keep": seconds, "stored_at", "stored_by"}]}`',
        ),
        ("`limit list`", '`{"items": [LIMIT]}`'),
        ("`limit set`, `reset`", "LIMIT"),
        ("`cluster move`, `drain`", '`{"moved": {"vshards", "rows", "unpublished"}}`'),
        (
            "`cluster restored`",
            '`{"restored": {"version", "databases": {name: {"running", "strays", "sent"}}, "parcels"}}`',
        ),
        (
            "`cluster init`, `add`, `list`, `check`",
            '`{"cluster": {"version", "well": bool, "members": [{"number", "name", "address", "vshards", "version", '
            '"moving", "problem", "undelivered": [{"to", "count", "age", "jobs"}], "takes_shards": bool, '
            '"well": bool}]}}`',
        ),
        (
            "`bus on`, `off`, `status`",
            '`{"bus": {"enabled": bool, "source", "switched_at", "actor", "missing": [trigger], "waiting", '
            '"oldest_at"}}`; `status` adds `"databases": [{"name", "enabled": bool, "waiting", "oldest_at", '
            '"publisher", "relay"}]`, in which the last two name processes',
        ),
        ("`db migrate`", '`{"schema": {"found", "wanted", "migrated": bool}}`'),
        ("`db check`", '`{"schema": {"found", "wanted", "current": bool}}`'),
        ("`db isolate`", '`{"isolated": bool, "tables": [name]}`'),
        ("`db backup`", '`{"backup": COPY}`, where COPY is `{"file", "bytes", "schema", "rows": {table: count}}`'),
        (
            "`db export`",
            '`{"export": {"file", "bytes", "rows": {table: count}}}`; without `--out` the lines themselves',
        ),
        ("`db import`", '`{"import": {"file", "database", "rows": {table: count}, "lost": count}}`'),
        ("`db restore`", '`{"restore": COPY with "database", "kept": file or null, "lost": count}`'),
        ("`check`", '`{"check": {"jobs": count, "files": [path], "findings": [{"severity", "where", "text"}]}}`'),
        ("`doctor`", '`{"doctor": {"healthy": bool, "database", "checks": [{"check", "level", "text", "mend"}]}}`'),
        (
            "`reload`",
            '`{"reload": {"schedules": count, "changes": [{"key", "new": bool, "changed": [text]}], "limits": {name: '
            "number or null}}}`",
        ),
        (
            "`config show`",
            '`{"config": {"settings": {name: value}}}`, with an application also `jobs`, `files` and `note`; with '
            '`--origin` each value is `{"value", "origin"}`',
        ),
        ("`token create`", '`{"token": the secret, …}` with the fields of TOKEN'),
        ("`token list`", '`{"tokens": [TOKEN], "next": id for --after, or null}`'),
        ("`token revoke`", '`{"revoked": TOKEN}`'),
        ("`attention lanes`", '`{"items": [each as of `attention show`], "next_cursor": null}`'),
        (
            "`attention show`",
            '`{"lane": LANE, "at", "focus": TASK or null, "stack": [TASK], "backlog": [TASK], "created": [TASK], '
            '"waiting": [{"task": TASK, "waits": [WAIT]}], "counts", "control"}`; of one task: TASK with `payload`, '
            "`context`, `result` and `waits`",
        ),
        ("`attention add`", "TASK with `payload`, `context`, `result` and `deduplicated`"),
        ("`attention post`", "EVENT with `deduplicated`"),
        ("`attention cancel`", "TASK with `payload`, `context` and `result`"),
        ("`attention confirm`", "WAIT with `task_kind`"),
        ("`attention journal`", '`{"items": [LINE], "next_cursor": text or null}`; `--since` takes the last `seq`'),
        (
            "`attention at`",
            "as `attention show`, with `seq`, `ended` and the rows of `tasks`, `waits`, `events` and `facts` instead "
            "of `lane`, `counts` and `control`",
        ),
        (
            "`attention verify`",
            '`{"items": [{"lane", "sound": bool, "lines", "sealed", "complaints": [text]}], "next_cursor": null}`',
        ),
        (
            "`attention anchor`",
            '`{"format", "version", "lane", "owner", "seq", "hash", "written_at", "signed_at", "signature"}`; with '
            '`--check` `{"lane", "sound": bool, "complaints": [text]}`',
        ),
        ("`attention top`", 'JSON Lines: `{"event": "changed", …}` as `attention show`; with `--once` only that'),
        ("`audit list`", '`{"items": [ENTRY], "next_cursor": null}`, an ENTRY as `GET /audit` gives it'),
        (
            "`audit verify`",
            '`{"sound": bool, "chains": [{"owner", "entries", "head", "complaints": [text]}], "complaints": [text], '
            '"warnings": [text]}`; `complaints` beside the chains are about an exported file',
        ),
        (
            "`audit export`",
            '`{"export": {"file", "entries", "chains": [{"owner", "entries", "head"}]}}`; with `-` the lines',
        ),
        ("`object export`", '`{"export": {"file", "objects", "evidence", "versions"}}`; with `-` the lines'),
        (
            "`worker`, `up`, `server`, `mcp`, `attention serve`, `demo attention`, `demo governance`",
            'JSON Lines, one event each: `{"event": "started" \\| "stopping" \\| "ended" \\| …}`; logs are on stderr',
        ),
        ("`--version`", '`{"version": "…"}`'),
        (
            "any failure",
            '`{"error": {"code", "message", "reason", "facts"}}`, and the message on stderr; `reason` and `facts` '
            "where the error has them; a mistake in cron also has `expression`, `field` and `position` (from 1)",
        ),
    ]
    table = "\n".join(["| Command | Document |", "|---|---|", *(f"| {name} | {shape} |" for name, shape in rows)])
    daily = Schedule("digest", "send-digest", "cron", "30 2 * * *", "Europe/Berlin")
    rule = Cron("30 2 * * *", "Europe/Berlin")
    shown = {
        "JOB": to_json(to_public(PublicJob, job)),
        "RUN": to_json(to_public(PublicRun, run)),
        "WHY": dict.fromkeys(("code", "text", "reason", "facts")),
        "QUEUE": to_json(to_public(PublicQueue, Queue("mail"))),
        "LIMIT": to_json(to_public(PublicLimit, RunningLimit("global"))),
        "SCHEDULE": to_json(to_public(PublicSchedule, daily)),
        "FIRE": to_json(enrich(PublicFire, Fire(now, "ran"), job_id="job_12")),
        "CLOCK": effect_shape(effects(rule, rule.zone, now)[0], "en"),
        "TOKEN": {each.name: None for each in fields(PublicToken)},
        "LANE": to_json(to_public(attention.Lane, Lane("main"))),
        "TASK": to_json(to_public(attention.Task, Task(12, 1, "report", "ready", 40))),
        "WAIT": to_json(to_public(attention.Wait, TaskWait(3, 1, 12, "refund", "confirm", "open", now, now))),
        "EVENT": to_json(to_public(attention.Event, Event(4, 1, "db.down", "used", now))),
        "LINE": to_json(to_public(attention.JournalEntry, Line(1, 7, now, "created"))),
    }
    kinds = "\n".join(f"- `{kind}`: " + ", ".join(f"`{name}`" for name in value) for kind, value in shown.items())
    promise = (
        "With `--json` stdout is one JSON document, also when the command fails. Fields may be added; none changes its "
        "meaning or goes away within a major version. Instants are ISO-8601 in UTC, spans are seconds."
    )
    return f"## JSON\n\n{promise}\n\n{table}\n\n{kinds}"


# -- settings ------------------------------------------------------------------------------------------------------


def settings_page() -> str:
    rows = [
        f"| `{each.metadata['env']}` | {shown_default(each)} | {each.metadata['help']} |" for each in fields(Settings)
    ]
    return (
        "\n\n".join(
            [
                NOTE,
                "# Settings",
                "A flag wins over the environment, the environment over the default. Nothing has to be set.",
                "\n".join(["| Variable | Default | Means |", "|---|---|---|", *rows]),
                "Spans are written `250ms`, `90s`, `5m`, `2h`, `1d`. A name that begins with `HORAE_` and is none of "
                "these is reported, because a misspelled one would silently mean the default. `NO_COLOR` is respected. "
                "`HORAE_FAULT` plants crashes for tests and is off unless set.",
            ]
        )
        + "\n"
    )


def shown_default(setting: Field[Any]) -> str:
    """Return a default as the environment would spell it, or in words where there is no value."""
    value = setting.default
    if setting.metadata["unset"] and not value:
        return str(setting.metadata["unset"])
    if isinstance(value, timedelta):
        in_minutes = setting.metadata["env"].endswith("_MINUTES")
        return f"`{value / timedelta(minutes=1):g}`" if in_minutes else f"`{span_text(value)}`"
    if isinstance(value, bool):
        return f"`{int(value)}`"
    return f"`{','.join(value) if isinstance(value, tuple) else value}`"


def span_text(value: timedelta) -> str:
    """``30d``, ``10m``: the largest unit that fits."""
    seconds = value.total_seconds()
    unit, size = next((unit, size) for unit, size in UNITS.items() if seconds % size == 0)
    return f"{seconds / size:g}{unit}"


# -- Python --------------------------------------------------------------------------------------------------------


def python_page() -> str:
    sections = [
        NOTE,
        "# Python",
        "What may be imported from `horae` and its public modules. [`horae.attention`](attention.md) and "
        "[`horae.errors`](errors.md) have pages of their own, [`horae.adapters`](../how-to/bring-your-own-agent-"
        "framework.md) a guide. Everything else may change.",
    ]
    for name in PUBLIC_MODULES:
        module = importlib.import_module(name)
        sections += [f"## `{name}`", *public_sections(module)]
    return "\n\n".join(sections) + "\n"


def attention_page() -> str:
    module = importlib.import_module("horae.attention")
    about = "One agent, one focus. [How to use it](../how-to/give-an-agent-attention.md), and "
    about += "[a tutorial](../tutorial/5-an-agent-with-one-focus.md)."
    return "\n\n".join([NOTE, "# Python: `horae.attention`", about, *public_sections(module)]) + "\n"


def public_sections(module: Any) -> list[str]:
    """Return a section for each public name of a module; other modules of ours it names have their own."""
    things = {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}
    return [thing_section(name, thing) for name, thing in things.items() if not inspect.ismodule(thing)]


def thing_section(name: str, thing: Any) -> str:
    if not callable(thing):
        return f"### `{name}`\n\n{doc(thing)}"
    if not inspect.isclass(thing):
        return f"### `{name}{signature(thing)}`\n\n{doc(thing)}"
    parts = [f"### `{name}`", doc(thing)]
    if issubclass(thing, BaseException):
        return "\n\n".join(parts)
    rows = [
        f"| `{escaped(text)}` | {escaped(first_sentence(member) if member is not None else '')} |"
        for text, member in members(thing)
    ]
    return "\n\n".join([*parts, "\n".join(["| | |", "|---|---|", *rows])] if rows else parts)


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Return the constructor, fields, properties and methods of a class that are public."""
    if is_dataclass(thing):
        for each in fields(thing):
            yield f"{each.name}: {each.type}", None
    elif "__init__" in vars(thing):
        yield f"{thing.__name__}{signature(thing)}", None
    ours = [kind for kind in reversed(thing.__mro__) if kind.__module__.startswith("horae.")]
    for name, member in {name: member for kind in ours for name, member in vars(kind).items()}.items():
        if not name.startswith("_") and not (member.__doc__ or "").startswith("For the runtime"):
            yield from member_line(thing, name, member)


def member_line(thing: type, name: str, member: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(member, classmethod):
        yield f"{name}{signature(getattr(thing, name))}", member.__func__
    elif inspect.isfunction(member):
        yield f"{name}{signature(member, is_method=True)}", member
    elif isinstance(member, property | cached_property):
        yield name, member.fget if isinstance(member, property) else member.func


class Annotation(str):
    """An annotation that is text already, and is shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def signature(thing: Any, *, is_method: bool = False) -> str:
    original = inspect.signature(thing)
    parameters = [
        each.replace(annotation=Annotation(each.annotation)) if isinstance(each.annotation, str) else each
        for each in list(original.parameters.values())[1 if is_method else 0 :]
    ]
    text = str(original.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    text = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)  # an address is another one each time
    return re.sub(r"\b(?:horae|datetime|typing|collections\.abc)\.(?:\w+\.)*(?=[A-Z]|timedelta)", "", text)


def doc(thing: Any) -> str:
    return marked(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0].replace("::", ":"))


def marked(text: str) -> str:
    """Docstrings speak reStructuredText in a few places; pages speak Markdown."""
    return re.sub(r":\w+:`([^`]+)`", r"`\1`", text).replace("``", "`")


def client_page() -> str:
    sections = [
        NOTE,
        "# Client",
        "`horae.Client(url, token)` room by room. `horae.AsyncClient` has the same: await each call, iterate listings "
        "with `async for`. Answers are frozen dataclasses with the service's own words as fields. "
        "Errors are [those of the library](errors.md). [How to use it](../how-to/use-the-client.md).",
    ]
    with horae.Client("http://127.0.0.1") as client:
        rooms = rooms_of(client)
    for name, room in rooms.items():
        rows = [
            f"| `{escaped(verb + signature(each.__wrapped__, is_method=True))}` "
            f"| {escaped(answered(each))} | `{each.method} {each.path}` | {escaped(first_sentence(each))} |"
            for verb, each in operations_of(type(room)).items()
        ]
        table = "\n".join(["| Call | Answer | Request | |", "|---|---|---|---|", *rows])
        sections += [f"## `client.{name}`", doc(type(room)), table]
    return "\n\n".join(sections) + "\n"


def answered(endpoint: Method[..., Any, Any, Any]) -> str:
    kind = str(endpoint.__wrapped__.__annotations__["return"])
    inner = kind.partition("[")[2].removesuffix("]")
    is_many = not isinstance(endpoint, Operation)
    return f"`{inner}`, each" if is_many else "" if inner == "None" else f"`{inner}`"


PAGES: dict[str, Callable[[], str]] = {
    "../contributing/requirements.md": requirements_page,
    "../explanation/governance.md": explanation_page,
    "attention.md": attention_page,
    "client.md": client_page,
    "command-line.md": command_line_page,
    "errors.md": errors_page,
    "openapi.json": description,
    "job-options.md": job_options_page,
    "public-names.txt": listing,
    "python.md": python_page,
    "settings.md": settings_page,
    "states.md": states_page,
    "../README.md": index_page,  # last: it reads the titles of the others
}


def main() -> int:
    if missing := missing_lines():
        print(missing, file=sys.stderr)
        return 1
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
        print((REFERENCE / name).resolve().relative_to(REFERENCE.parents[1]))
    RECORD.write_text(record_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
