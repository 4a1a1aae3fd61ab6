"""The reference page of the options of ``@app.job``, from their one declaration."""

import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

from horae.cli.schedules.options import OPTIONS as COMMAND_LINE
from horae.core.time.spans import Span
from horae.declare.file_values import KEYS
from horae.declare.options import SECTIONS, JobOptions, Option, options
from horae.declare.using import USING
from horae.errors import StoreUnavailable
from horae.service.asgi import build
from scripts.markdown import NOTE, escaped
from scripts.option_examples import EXAMPLES

HTTP_NAMES = {"arguments": "payload"}  # over HTTP every job has a payload, whatever made it


def of_new_schedules() -> set[str]:
    """Return the fields of ``POST /schedules``."""

    def nowhere() -> Any:
        raise StoreUnavailable("only the description is wanted")

    document = build(nowhere).openapi()
    body = document["paths"]["/schedules"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    shape = document["components"]["schemas"][body["$ref"].rpartition("/")[2]] if "$ref" in body else body
    return set(shape["properties"])


def job_options_page() -> str:
    fields_of_http = of_new_schedules()
    kinds = get_type_hints(JobOptions)
    sections = [
        NOTE,
        "# Options of a job",
        "What `@app.job(id, …)` takes, of an application or a `Blueprint`. "
        "[`jobs.conf`](../how-to/configure-jobs-by-file.md), `POST /schedules` and `horae schedule add` take those "
        "that are ticked, by the same names and with the same defaults unless it says otherwise here. "
        'Spans are seconds, a `timedelta`, or text such as `"250ms"`, `"90s"`, `"5m"`, `"1h30m"`, `"2d"`. '
        "In the file an instant is "
        '`2030-01-07T06:00:00Z`, and a retry policy `"none"` or `{ kind = "fixed", attempts = 3, delay = "5m" }`.',
    ]
    for section, title in SECTIONS.items():
        rows = [
            f"| `{name}` | {escaped(kind_shown(kinds[name]))} | {default_shown(option)} | {escaped(option.text)} "
            f"| `{escaped(EXAMPLES[name])}` "
            f"| {'✓' if name in KEYS else ''} | {http_shown(name, fields_of_http)} | {command_line_shown(name)} |"
            for name, option in options()
            if option.section == section
        ]
        columns = ["Option", "Type", "Default", "Means", "Example", "File", "HTTP", "Command line"]
        sections += [f"## {title}", table(columns, rows)]
    sections += ["## Why not everywhere", "\n".join(reasons()), *using_sections()]
    return "\n\n".join(sections) + "\n"


def using_sections() -> list[str]:
    """Return the part about the options of one enqueue."""
    rows = [
        f"| `{name}` | {escaped(option.default)} | {escaped(option.text)} | `{escaped(option.example)}` |"
        for name, option in USING.items()
    ]
    return [
        "## What `using` takes",
        "`handle.using(…).enqueue(…)` stores one job with other options. `app.jobs.enqueue`, `POST /jobs` and "
        "`horae job enqueue` call those that they take by the same names.",
        table(["Option", "Default", "Means", "Example"], rows),
    ]


def table(columns: list[str], rows: list[str]) -> str:
    return "\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows])


def reasons() -> list[str]:
    """Return why options are missing on a door, one line for each reason."""
    doors = {
        "`jobs.conf`": "not_in_file",
        "`POST /schedules`": "not_over_http",
        "`horae schedule add`": "not_on_command_line",
    }
    missing: dict[tuple[str, str], list[str]] = {}
    for name, option in options():
        by_reason: dict[str, list[str]] = {}
        for door, field in doors.items():
            if reason := getattr(option, field):
                by_reason.setdefault(reason, []).append(door)
        for reason, names in by_reason.items():
            missing.setdefault((" or ".join(names), reason), []).append(f"`{name}`")
    return [f"- Not in {door}: {', '.join(names)}. Why: {reason}." for (door, reason), names in missing.items()]


def command_line_shown(name: str) -> str:
    """Return the flag that sets an option of a schedule."""
    if name == "enabled":
        return "`--disabled`"
    flag = COMMAND_LINE.get(HTTP_NAMES.get(name, name))
    return "" if flag is None else f"`{flag.__metadata__[0].default.split('/')[0]}`"


def kind_shown(kind: Any) -> str:
    """Return a type in words that a reader of Python knows."""
    if kind == Span:
        return "span"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    text = getattr(kind, "__name__", "") if isinstance(kind, type) else str(kind)
    return f"`{re.sub(r'(?:horae|datetime|typing|collections.abc)[.](?:[a-z_]+[.])*', '', text)}`"


def default_shown(option: Option) -> str:
    return option.default_words if option.default_text or option.default is None else f"`{option.default_words}`"


def http_shown(name: str, known: set[str]) -> str:
    other = HTTP_NAMES.get(name, "")
    return "✓" if name in known else f"`{other}`" if other in known else ""
