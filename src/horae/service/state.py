"""Dependencies of every endpoint: the world, the service and its options, and the caller."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import Scope

from horae.actions.access import tokens
from horae.actions.jobs.quotas import RoomLeft
from horae.api.operation import Needs
from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.errors import HoraeError, InvalidInput, Unauthorized
from horae.ports.world import World
from horae.service.auth.recognised import Recognised
from horae.service.guard.limits import Limits, Rates
from horae.service.options import Options
from horae.service.threads import on_thread
from horae.service.trace_context import join_trace

OPEN_CALLER = Caller(SYSTEM, frozenset({"admin"}), "anybody")
READING = frozenset({"GET", "HEAD", "OPTIONS"})
CALLER = "horae.caller"  # where the guard leaves the caller; in no state that an outer application sets
REQUIRED_SCOPES: dict[Callable[..., object], tuple[str, ...]] = {}  # the scopes of which a dependency requires one
bearer = HTTPBearer(
    auto_error=False, scheme_name="token", description="A token (`horae token create`), or a JWT where configured."
)


@dataclass(frozen=True)
class Service:
    """One running service."""

    opens: Callable[[], World]  # a store that does not answer yet is an error of the request, not of the start
    options: Options
    limits: Limits = field(default_factory=lambda: Limits(Rates(), lambda: 0.0))
    recognised: Recognised = field(default_factory=lambda: Recognised(None))
    room_left: RoomLeft | None = None  # None, as without a clock: each enqueue counts

    @property
    def world(self) -> World:
        return self.opens()


def service_of(request: Request) -> Service:
    found: Service = request.app.state.horae
    return found


def ticks_of(service: Service) -> Callable[[], float]:
    """Return a monotonic clock in seconds; it gives NaN while the store does not answer."""

    def ticks() -> float:
        given = service.options.monotonic
        try:
            return service.world.clock.monotonic() if given is None else given()
        except HoraeError:
            return math.nan

    return ticks


def world_of(request: Request) -> World:
    return join_trace(service_of(request).world, request)


def authenticate(service: Service, authorization: str | None, address: str | None) -> Caller:
    """Authenticate a caller by its Authorization header alone; may ask the store."""
    if service.options.open_to_all:
        caller = OPEN_CALLER
    else:
        text = bearer_of(authorization)
        if text is None:
            raise Unauthorized("token_missing")
        caller = _recognise(service, text, address)
    service.limits.count_caller(caller)
    return caller


def find_recognised(service: Service, authorization: str | None) -> Caller | None:
    """Return the caller if its token was recognised a moment ago; asks no store."""
    text = None if service.options.open_to_all else bearer_of(authorization)
    caller = None if text is None else service.recognised.find(text, lambda: service.world.clock.now())
    if caller is not None:
        service.limits.count_caller(caller)
    return caller


def bearer_of(authorization: str | None) -> str | None:
    """Return the token in an Authorization header; None where there is none."""
    scheme, _, text = (authorization or "").strip().partition(" ")
    return text.strip() or None if scheme.lower() == "bearer" else None


async def caller_of(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)] = None
) -> Caller:
    """Authenticate the caller; cached per request, as the guard does it before reading a body."""
    caller: Caller | None = request.scope.get(CALLER)
    if caller is None:
        authorization = None if given is None else f"{given.scheme} {given.credentials}"
        service, address = service_of(request), address_of(request.scope)
        caller = find_recognised(service, authorization)
        if caller is None:
            caller = await on_thread(authenticate, service, authorization, address)
    request.state.caller = caller
    return caller


def address_of(scope: Scope) -> str | None:
    client = scope.get("client")
    return None if client is None else str(client[0])[:64]


def _recognise(service: Service, text: str, address: str | None) -> Caller:
    try:
        known = (each(text) for each in service.options.recognisers)
        found = next((caller for caller in known if caller is not None), None)
        if found is None:
            mark = service.recognised.begin()
            found = tokens.recognise(service.world, text, address=address)
            service.recognised.keep(text, found, mark)
        return found
    except Unauthorized:
        service.limits.count_wrong_token(address)
        raise


def require_scopes(*scopes: str, by_queue: bool = False) -> Callable[..., Awaitable[Caller]]:
    """Return a dependency that gives the caller, who holds one of these scopes; for reading, ``read`` is enough.

    A token that is limited to queues is refused, unless the endpoint itself keeps to ``caller.queues`` (*by_queue*).
    """
    needs = Needs(scopes, by_queue)

    async def check(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        needs.check(caller, reads=request.method in READING)
        if request.method not in READING:
            _refuse_unknown_parameters(request)
        return caller

    REQUIRED_SCOPES[check] = scopes
    return check


def _refuse_unknown_parameters(request: Request) -> None:
    """Refuse unknown parameters of a change: a misspelt filter would mean everything."""
    route: APIRoute = request.scope["route"]
    unknown = sorted(request.query_params.keys() - _query_of(route.dependant))
    if unknown:
        raise InvalidInput("parameter_unknown", name=unknown[0][:64])


def _query_of(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*(_query_of(each) for each in dependant.dependencies))


CurrentWorld = Annotated[World, Depends(world_of)]
CurrentService = Annotated[Service, Depends(service_of)]
