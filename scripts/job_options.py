"""The reference page of the options of ``@app.job``, from their one declaration."""

import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

from horae.declare.file_values import KEYS
from horae.declare.options import SECTIONS, JobOptions, Option, Span, options
from horae.errors import StoreUnavailable
from horae.service.asgi import build
from scripts.markdown import NOTE, escaped

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
        "What `@app.job(id, …)` takes. [`jobs.conf`](../how-to/configure-jobs-by-file.md) and `POST /schedules` "
        "take those that are ticked, by the same names and with the same defaults unless it says otherwise here. "
        'Spans are a `timedelta` or seconds; in the file also `"250ms"`, `"90s"`, `"5m"`, `"2h"`.',
    ]
    for section, title in SECTIONS.items():
        rows = [
            f"| `{name}` | {escaped(kind_shown(kinds[name]))} | {default_shown(option)} | {escaped(option.text)} "
            f"| {'✓' if name in KEYS else ''} | {http_shown(name, fields_of_http)} |"
            for name, option in options()
            if option.section == section
        ]
        head = ["| Option | Type | Default | Means | File | HTTP |", "|---|---|---|---|---|---|"]
        sections += [f"## {title}", "\n".join([*head, *rows])]
    return "\n\n".join(sections) + "\n"


def kind_shown(kind: Any) -> str:
    """Return a type in words that a reader of Python knows."""
    if kind == Span:
        return "span"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    text = getattr(kind, "__name__", "") if isinstance(kind, type) else str(kind)
    return f"`{re.sub(r'(?:horae|datetime|typing|collections.abc)[.](?:[a-z_]+[.])*', '', text)}`"


def default_shown(option: Option) -> str:
    return option.shown_default if option.default_text or option.default is None else f"`{option.shown_default}`"


def http_shown(name: str, known: set[str]) -> str:
    other = HTTP_NAMES.get(name, "")
    return "✓" if name in known else f"`{other}`" if other in known else ""
