"""Errors as HTTP answers: problem+json (RFC 9457).

Every error of Horae has a status here. Any other exception is a fault of the service: it is logged with the id of the
request, and the caller gets only that id.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from horae.core.access.callers import mask_token_values, mask_tokens
from horae.errors import (
    Conflict,
    ContentTooLarge,
    Forbidden,
    HoraeError,
    IntervalRefused,
    InvalidInput,
    KeysUnavailable,
    LeaseLost,
    NotAllowed,
    NotFound,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TooManyRequests,
    Unauthorized,
    VersionConflict,
)
from horae.service import languages, validation
from horae.words.sentences import words_in

log = logging.getLogger("horae.service")
MEDIA = "application/problem+json"
TYPE = "urn:horae:error:{code}"  # a name, not an address: docs/reference/errors.md lists the codes
# The first line that fits decides, so a class stands before its parents.
STATUS: tuple[tuple[type[HoraeError], int], ...] = (
    (IntervalRefused, 400),  # what document 001's API answers
    (ContentTooLarge, 413),
    (InvalidInput, 422),
    (Unauthorized, 401),
    (Forbidden, 403),
    (TooManyRequests, 429),
    (KeysUnavailable, 503),
    (NotFound, 404),
    (VersionConflict, 412),
    (NotAllowed, 409),
    (Conflict, 409),
    (LeaseLost, 409),
    (StoreFull, 507),
    (StoreError, 503),
    (HoraeError, 500),
)
# Codes of the service alone, which no error of the library has; docs/reference/errors.md lists them too.
OWN_CODES = {
    "method_not_allowed": "405: the address knows other methods; the header `Allow` names them.",
    "too_large": "413: the body is longer than `HORAE_MAX_BODY_BYTES`.",
    "too_slow": "408: the body did not arrive in time.",
    "unsupported_media": "415: the body is compressed, or of a type that is not read here.",
    "wrong_host": "421: the service is not known under the name in `Host`.",
    "cross_site": "403: a page of another site tried to change something.",
    "refused": "Anything else that the HTTP layer refuses.",
    "internal_error": "500: something went wrong here; `request_id` finds it in the log.",
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
MOST_ERRORS = 50  # of the places where an input does not fit
RETRY_AFTER = 2  # seconds: when a store that does not answer is worth another try


def status_of(problem: HoraeError) -> int:
    return next(status for kind, status in STATUS if isinstance(problem, kind))


def problem(status: int, code: str, detail: str, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """Return a problem document; its title is in the language of the request, as its detail should be."""
    phrase = HTTPStatus(status).phrase
    body = {
        "type": TYPE.format(code=code),
        "title": words_in(languages.current()).titles.get(phrase, phrase),
        "status": status,
        "code": code,
        "detail": mask_tokens(detail),
        **more,
    }
    return JSONResponse(body, status, {**(headers or {}), **languages.headers()}, media_type=MEDIA)


def refusal(
    status: int, code: str, reason: str, headers: dict[str, str] | None = None, **facts: str | int
) -> JSONResponse:
    """Return a problem document that the service words itself, by a table of its own in :mod:`horae.words`."""
    return problem(status, code, own_words(reason, **facts), headers)


def own_words(reason: str, **facts: str | int) -> str:
    return words_in(languages.current()).problems[reason].format(**facts)


HAPPENS = {
    400: "An interval that is no whole number of seconds, or shorter than the operator allows.",
    404: "There is no such thing, or it is not yours.",
    409: "It contradicts what is stored: a state, a key that is taken, a limit that is reached; `code` says which.",
    412: "It was changed since it was read: `If-Match` names an older version.",
}


def refuses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the refusals that an endpoint declares, beside those that any request may meet."""
    return {status: problem_answer(HAPPENS[status]) for status in statuses}


def problem_answer(description: str) -> dict[str, Any]:
    return {"description": description, "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}}


def register(app: FastAPI) -> None:
    app.add_exception_handler(HoraeError, answer_error)  # type: ignore[arg-type]  # it gets this class alone
    app.add_exception_handler(RequestValidationError, answer_invalid)  # type: ignore[arg-type]  # it gets this class alone
    app.add_exception_handler(HTTPException, refuse_request)  # type: ignore[arg-type]  # it gets this class alone
    app.add_exception_handler(Exception, answer_failure)


def answer_error(request: Request, error: HoraeError) -> JSONResponse:
    """Answer with an error of Horae."""
    status = status_of(error)
    request.state.problem = error.code  # for the metrics
    headers: dict[str, str] = {}
    more = attributes_of(error)
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = 'Bearer realm="horae"'
    if isinstance(error, TooManyRequests | KeysUnavailable):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if isinstance(error, StoreError):
        headers["Retry-After"] = str(RETRY_AFTER)
        log.warning("the store: %s", error, extra={"request_id": request_id(request)})
    if status == 500:
        return answer_failure(request, error)
    detail = error.in_words(languages.current())
    if isinstance(error, StoreUnavailable) and error.outcome_unknown:
        detail = own_words("store_outcome_unknown")
    elif isinstance(error, StoreError):
        detail = own_words(error.code if error.code in STORE_SAYS else "store_down")
    else:
        more |= error.as_json()  # what the database said stays in the log
    return problem(status, error.code, detail, headers, **mask_token_values(more))


def attributes_of(error: HoraeError) -> dict[str, Any]:
    """Return the attributes that some classes have beside their facts, for programs."""
    own = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    return {name: value for name, value in own.items() if name not in ("facts", "reason") and value not in ("", False)}


STORE_SAYS = frozenset({"store_busy", "store_full", "schema_missing", "schema_too_new"})  # codes with a sentence


def answer_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """Answer that a body or parameter does not fit; say where, and of what was sent at most its masked beginning."""
    language = languages.current()
    found = [validation.misfit(each) for each in error.errors()[:MOST_ERRORS]]
    errors = [each.as_json(language) for each in found]
    first = found[0]
    is_other = "json" not in request.headers.get("content-type", "")
    if first.where == "body" and first.kind != "missing" and is_other:
        first = validation.Misfit("body", first.kind, InvalidInput("body_not_json_type", where="body"))
    more = mask_token_values({**first.error.as_json(), "errors": errors})
    return problem(422, first.error.code, first.in_words(language), **more)


def refuse_request(request: Request, error: HTTPException) -> JSONResponse:
    """Answer what the framework refuses by itself: unknown paths and methods."""
    code = {404: "not_found", 413: "too_large", 415: "unsupported_media"}.get(error.status_code, "refused")
    detail = str(error.detail) if error.detail else HTTPStatus(error.status_code).phrase
    headers = dict(error.headers or {})
    if error.status_code == 404:
        root = request.scope.get("root_path", "")
        detail = own_words("nothing_at_address", root=root)
    if error.status_code == 405:
        return method_not_allowed(allowed_methods(request))
    return problem(error.status_code, code, detail, headers)


def method_not_allowed(methods: Iterable[str]) -> JSONResponse:
    allow = ", ".join(methods)
    return refusal(405, "method_not_allowed", "methods_known", {"Allow": allow}, methods=allow)


def allowed_methods(request: Request) -> list[str]:
    """Return every method of the path; the framework names only those of the first route that fits."""
    scopes = ((method, {**request.scope, "method": method}) for method in METHODS)
    routes = request.app.router.routes
    return [method for method, scope in scopes if any(route.matches(scope)[0] is Match.FULL for route in routes)]


def answer_failure(request: Request, error: Exception) -> JSONResponse:
    """Answer that the service failed, and log the exception."""
    identifier = request_id(request)
    log.error("request %s failed", identifier, exc_info=error, extra={"request_id": identifier})
    return problem(500, "internal_error", own_words("failed_here", request_id=identifier), request_id=identifier)


def request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))
