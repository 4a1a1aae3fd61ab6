"""The description of the API: OpenAPI 3.1, and a page of it that works offline.

What FastAPI cannot know is added here: that every refusal is problem+json, and the public URL of the service.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute

from horae.service.problems import TYPE, problem_answer
from horae.service.router import make_router
from horae.service.state import service_of

router = make_router()
METHODS = ("get", "put", "post", "delete", "patch")
OPEN = frozenset({"/healthz", "/readyz", "/version"})
TAGS = {
    "health": "Is it alive, is it ready, what are its figures.",
    "overview": "What goes on now, and what needs a person.",
    "jobs": "Enqueue a job, look at it, cancel or revive it.",
    "batches": "Jobs that belong together, their progress, and the callbacks that follow.",
    "bulk acts": "Cancel, revive or reschedule every job that fits a filter.",
    "worker protocol": "Pull, renew, acknowledge, fail; for workers in any language.",
    "runs": "The log of runs, and cleaning it.",
    "definitions": "What the house's workers can run, and what of it is open to tenants.",
    "scheduled tasks": "Tasks that users schedule for themselves.",
    "secrets": "What a task may use without seeing it.",
    "owners": "What is special about a tenant.",
    "schedules": "When things run.",
    "scheduler": "Start, stop and trigger stored schedules by their key; the same schedules as `/schedules`.",
    "administration": "Declared jobs and the log of their runs, with times in milliseconds since 1970.",
    "queues": "See, pause and limit them.",
    "limits": "How many jobs run at once: over all, in a group, in a queue.",
    "workers": "Who serves.",
    "tokens": "Who may call.",
    "sessions": "Browsers that are logged in to the console.",
    "audit": "Who did what.",
}
DESCRIPTION = (
    "Send `Authorization: Bearer <token>`. Times are UTC, ISO 8601. Lists go on with `next_cursor`. Every refusal is "
    "`application/problem+json` with a stable `code`; what belongs to another tenant is not found."
)
PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "A refusal (RFC 9457). `code` and `reason` are stable; `detail` is for people.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "reason": {"type": "string", "description": "What is wrong, more precisely than `code`; not always known."},
        "facts": {"type": "object", "description": "What `detail` speaks of, by name."},
        "request_id": {"type": "string"},
        "limit": {"type": "string", "description": "Which limit was reached."},
        "errors": {"type": "array", "items": {"type": "object"}, "description": "Where the input does not fit."},
    },
    "additionalProperties": True,
    "examples": [
        {
            "type": TYPE.format(code="not_found"),
            "title": "Not Found",
            "status": 404,
            "code": "not_found",
            "detail": "There is no job job_7. It may have been cleaned up; `horae job list` shows what there is.",
            "reason": "job_unknown",
            "facts": {"id": "job_7"},
        }
    ],
}
REFUSALS = {
    "401": "No token, or none that is valid.",
    "403": "Recognised, and not allowed to do that.",
    "413": "The body is too long.",
    "422": "Something in the request does not fit.",
    "429": "Too often; `Retry-After` says when to come again.",
    "503": "The store does not answer at the moment; nothing was changed.",
}
MOST = 2**63 - 1  # what every store can count to
LIST_OF = re.compile(r"\bPage_(\w+?)_(?=\")|\bPage\[(\w+)\]")
GENERATED = ("HTTPValidationError", "ValidationError")  # models of FastAPI that are never sent


def describe(app: FastAPI, rooms: Callable[[], str], public_url: str = "") -> None:
    """Serve the completed description at /openapi.json.

    *rooms* describes the routes that the application has now; where more are added later, all are described anew.
    """
    known = len(app.routes)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            text = rooms() if len(app.routes) == known else describe_routes(app.routes)
            app.openapi_schema = complete(text, app, public_url)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI documents it


def complete(text: str, app: FastAPI, public_url: str) -> dict[str, Any]:
    """Add to a description of routes what is the application's own."""
    document: dict[str, Any] = json.loads(text)
    document["info"] |= {"title": app.title, "summary": app.summary, "version": app.version}
    return document | ({"servers": [{"url": public_url}]} if public_url else {})


def describe_routes(routes: Sequence[BaseRoute]) -> str:
    """Return the description of routes as JSON."""
    document = get_openapi(
        title="",
        version="",
        summary="",
        description=DESCRIPTION,
        routes=routes,
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
    )
    document = name_lists(document)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    for path, _, operation in operations(document):
        add_refusals(operation, is_open=path in OPEN)
    for name in GENERATED:
        schemas.pop(name, None)
    restore_maximum(document)
    return json.dumps(document)


def name_lists(document: dict[str, Any]) -> dict[str, Any]:
    """Give lists names that a generator can use: ``JobList`` instead of ``Page_Job_``."""
    text = LIST_OF.sub(lambda match: f"{match[1] or match[2]}List", json.dumps(document))
    found: dict[str, Any] = json.loads(text)
    for name, schema in found["components"]["schemas"].items():
        schema["title"] = name  # generators name classes by titles, and every list has that of ``Page``
    return found


def restore_maximum(part: Any) -> None:
    """Restore the largest integer: FastAPI keeps bounds as floats, and the nearest float is larger."""
    if isinstance(part, dict) and part.get("type") == "integer" and part.get("maximum") == float(MOST):
        part["maximum"] = MOST
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        restore_maximum(inner)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def add_refusals(operation: dict[str, Any], *, is_open: bool) -> None:
    responses: dict[str, Any] = operation.setdefault("responses", {})
    if "HTTPValidationError" in json.dumps(responses.get("422", "")):
        del responses["422"]
    expected = ("429", "503") if is_open else tuple(REFUSALS)
    for status in expected:
        responses.setdefault(status, problem_answer(REFUSALS[status]))
    responses.setdefault("default", problem_answer("Any other refusal."))


# -- the page ------------------------------------------------------------------------------------------------------

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
h2{margin-top:2.5rem;border-bottom:1px solid #8886}summary{cursor:pointer;padding:.3rem 0}
code,pre{font:14px/1.5 ui-monospace,monospace}pre{overflow:auto;padding:.75rem;border:1px solid #8886;border-radius:6px}
.m{display:inline-block;min-width:4.5rem;font-weight:600}td{padding:.15rem 1rem .15rem 0;vertical-align:top}
"""
POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Return a page of all operations that needs neither network nor script."""
    here = f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '').rstrip('/')}"
    base = service_of(request).options.public_url or here
    return HTMLResponse(page(request.app.openapi(), base), headers={"Content-Security-Policy": POLICY})


def page(document: dict[str, Any], base: str) -> str:
    rooms: dict[str, list[str]] = {}
    for path, method, operation in operations(document):
        for tag in operation.get("tags", ["other"])[:1]:
            rooms.setdefault(tag, []).append(entry(path, method, operation, document, base))
    parts = [f"<h2>{escape(room)}</h2>{''.join(entries)}" for room, entries in rooms.items()]
    title = f"{document['info']['title']} {document['info']['version']}"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>"
        f"<p>{escape(document['info'].get('description', '')).replace('`', '')}</p>"
        f"<p>For machines: <a href='openapi.json'>openapi.json</a></p>{''.join(parts)}</html>"
    )


def entry(path: str, method: str, operation: dict[str, Any], document: dict[str, Any], base: str) -> str:
    rows = [
        f"<tr><td><code>{escape(each['name'])}</code><td>{escape(each['in'])}<td>{escape(each.get('description', ''))}"
        for each in operation.get("parameters", [])
    ]
    example = example_of(operation, document)
    body = "" if example is None else f" \\\n  -H 'Content-Type: application/json' -d '{json.dumps(example)}'"
    secured = ' \\\n  -H "Authorization: Bearer $HORAE_TOKEN"' if operation.get("security") else ""
    curl = f"curl -X {method.upper()} {base}{path}{secured}{body}"
    return (
        f"<details><summary><span class=m>{method.upper()}</span> <code>{escape(path)}</code> "
        f"{escape(operation.get('summary', ''))}</summary><p>{escape(operation.get('description', ''))}</p>"
        f"<table>{''.join(rows)}</table><pre>{escape(curl)}</pre></details>"
    )


def example_of(operation: dict[str, Any], document: dict[str, Any]) -> Any:
    """Return the first example of an operation's JSON body; None where it has no body."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    schema = content.get("schema", {})
    model = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    return next(iter(model.get("examples", [])), {})
