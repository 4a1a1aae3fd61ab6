"""Tokens, tenants, and the secrets that webhooks refer to by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from operator import attrgetter
from typing import Any

from horae.actions.access import owners, secrets, sessions, tokens
from horae.actions.jobs import quiet_owners
from horae.api import merges
from horae.api.access.values import (
    LoginCode,
    Owner,
    OwnerHours,
    Resealed,
    Secret,
    SecretMade,
    Session,
    Token,
    TokenMade,
)
from horae.api.everywhere import over_all
from horae.api.here import Here
from horae.api.operation import DELETE, GET, PAGES, POST, PUT, Call, Listing, Page, Room, S
from horae.api.values import drop_none, enrich
from horae.core.access import callers as core
from horae.core.access.owners import OwnerSettings
from horae.core.access.sessions import LONGEST
from horae.core.cursors import cursor_from, not_ours, read_cursor
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.core.time.instants import instant, micros
from horae.core.time.spans import Span, span
from horae.errors import Forbidden, InvalidInput, SecretsLocked
from horae.ports.access import Sealed, Sealer

ADMIN, TENANT = ("admin",), ("tasks",)
HIDDEN = {"digest"}  # fields of a stored token that are not public
MOST_SCOPES = 10  # words of one call
LATEST = 2**55  # microseconds: no token was made later, and a year can still be written


class Tokens(Room[S]):
    """Access tokens; needs the scope ``admin``, also for reading."""

    @POST("/tokens", *ADMIN)
    def create(
        self,
        owner: str,
        scopes: Iterable[str],
        *,
        name: str = "",
        queues: Iterable[str] = (),
        agent: str | None = None,
        expires_in: Span | None = tokens.DEFAULT_LIFE,
        reason: str = "",
    ) -> Call[TokenMade]:
        """Make a token; its text is in ``token``, this once. With *expires_in* None it is valid until it is revoked.

        With *agent* it is held by that agent: it acts for no other, and can never answer as a person.
        """
        may, serves = _words(scopes), list(queues)
        life = None if expires_in is None else span(expires_in)

        def act(here: Here) -> TokenMade:
            made, text = tokens.create_token(
                here.world,
                owner=owner,
                scopes=may,
                title=name,
                queues=serves,
                agent=agent,
                expires_in=life,
                actor=here.actor,
                reason=reason,
            )
            return TokenMade(**_facts(made, here.world.clock.now()), token=text)

        body = drop_none(owner=owner, scopes=may, name=name, queues=serves, agent=agent, reason=reason or None)
        return Call(TokenMade, act, body={**body, "expires_in": None if life is None else life.total_seconds()})

    @PAGES("/tokens", *ADMIN)
    def list(self, *, owner: str | None = None, limit: int | None = None) -> Listing[Token]:
        """List tokens, newest first, without their texts."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Token], str | None]:
            here.caller.require(*ADMIN)
            found = tokens.find_tokens(here.world, owner=owner, limit=size, after=_after(cursor))
            now, last = here.world.clock.now(), found[-1] if len(found) == size else None
            further = None if last is None else cursor_from([micros(last.created_at), last.token_id])
            return [Token(**_facts(each, now)) for each in found], further

        _check_owner(owner)
        first = Call[Page[Token]](Page[Token], query=drop_none(owner=owner))
        return Listing(first, limit, fetch, order=attrgetter("created_at", "id"))

    @DELETE("/tokens/{token_id}", *ADMIN)
    def revoke(self, token_id: str, *, reason: str = "") -> Call[Token]:
        """Revoke a token; calls that wait with it end within a second."""

        def act(here: Here) -> Token:
            revoked = tokens.revoke_token(here.world, token_id, actor=here.actor, reason=reason)
            return Token(**_facts(revoked, here.world.clock.now()))

        return Call(Token, act, at={"token_id": token_id}, query=drop_none(reason=reason or None), repeats=True)


class Sessions(Room[S]):
    """Browsers that are logged in to the console."""

    @POST("/sessions/codes", *core.SCOPES, by_queue=True)
    def create_code(
        self, *, owner: str | None = None, scopes: Iterable[str] = (), name: str = "", reason: str = ""
    ) -> Call[LoginCode]:
        """Make a code that logs one browser in, once, within ten minutes.

        The browser acts with the token of the caller. With *owner* or *scopes*, which needs ``admin``, or where the
        caller has no token, with a new one that is valid for a week.
        """
        may = _words(scopes)
        _check_owner(owner)

        def act(here: Here) -> LoginCode:
            token_id = here.caller.token_id
            if owner is not None or may or token_id is None:
                here.caller.require(*ADMIN)
                made, _ = tokens.create_token(
                    here.world,
                    owner=owner or SYSTEM,
                    scopes=may or ADMIN,
                    title=name or "console",
                    expires_in=LONGEST,
                    actor=here.actor,
                    reason=reason,
                )
                token_id = made.token_id
            code, text = sessions.create_code(here.world, token_id, actor=here.actor, reason=reason)
            return LoginCode(code=text, token_id=token_id, expires_at=code.expires_at)

        return Call(LoginCode, act, body=drop_none(owner=owner, scopes=may, name=name or None, reason=reason or None))

    @PAGES("/sessions", *ADMIN)
    def list(self, *, owner: str | None = None, limit: int | None = None) -> Listing[Session]:
        """List sessions that have not ended, those seen last first."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Session], str | None]:
            here.caller.require(*ADMIN)
            found = sessions.find_sessions(here.world, owner=owner, limit=size, after=_after(cursor))
            last = found[-1] if len(found) == size else None
            further = None if last is None else cursor_from([micros(last.seen_at), last.session_id])
            return [enrich(Session, each, id=each.session_id) for each in found], further

        _check_owner(owner)
        first = Call[Page[Session]](Page[Session], query=drop_none(owner=owner))
        return Listing(first, limit, fetch, order=attrgetter("seen_at", "id"))

    @DELETE("/sessions/{session_id}", *ADMIN)
    def end(self, session_id: str, *, reason: str = "") -> Call[None]:
        """Log a browser out; its next request is refused."""

        def act(here: Here) -> None:
            sessions.end_session(here.world, session_id, actor=here.actor, reason=reason)

        return Call(None, act, at={"session_id": session_id}, query=drop_none(reason=reason or None))


class Owners(Room[S]):
    """Settings of tenants; for operators alone."""

    @PAGES("/owners", *ADMIN)
    def list(self, *, limit: int | None = None) -> Listing[Owner]:
        """List tenants that have settings, secrets or tasks, by name."""

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Owner], str | None]:
            _require_operator(here)
            (after,) = read_cursor(cursor, str) or [None]
            found = owners.find_owners(here.world, limit=size, after=after)
            return [_owner(*each) for each in found], cursor_from([found[-1][0]]) if len(found) == size else None

        return Listing(Call(Page[Owner]), limit, fetch, order=attrgetter("owner"), is_rising=True)

    @GET("/owners/{owner}", *ADMIN)
    def get(self, owner: str) -> Call[Owner]:
        """Return the settings of a tenant, or the defaults where there are none."""

        def fetch(here: Here) -> Owner:
            _require_operator(here)
            return _owner(owner, owners.get_owner(here.world, owner))

        return Call(Owner, fetch, at={"owner": owner})

    @PUT("/owners/{owner}", *ADMIN)
    def put(
        self,
        owner: str,
        *,
        allow_networks: Iterable[str] = (),
        allow_http: bool = False,
        ports: Iterable[int] = (),
        max_enabled_tasks: int | None = None,
        weight: int = 1,
        reason: str = "",
    ) -> Call[Owner]:
        """Replace the settings of a tenant; what is left out becomes the default.

        *weight* is its share of queues in which owners take turns: one of weight 3 gets three jobs for each of another.
        """
        wanted = OwnerSettings(tuple(allow_networks), allow_http, tuple(ports), max_enabled_tasks, weight)

        def act(here: Here) -> Owner:
            return _owner(owner, owners.set_owner(here.world, owner, wanted, actor=here.actor, reason=reason))

        body = drop_none(**asdict(wanted), reason=reason or None)
        return Call(Owner, act, at={"owner": owner}, body=body)

    @GET("/quiet-owners", *ADMIN)
    def list_quiet(self) -> Call[tuple[OwnerHours, ...]]:
        """List the tenants that have quiet hours."""

        def fetch(here: Here) -> Any:
            _require_operator(here)
            return quiet_owners.list_owners(here.world)

        return Call(tuple[OwnerHours, ...], fetch, gather=over_all(fetch, merges.merge_owners))

    @PUT("/quiet-owners/{owner}", *ADMIN)
    def quiet(self, owner: str, quiet_hours: str, *, zone: str = "UTC", reason: str = "") -> Call[OwnerHours]:
        """Start no job of a tenant, in whatever queue, in these hours of a *zone*, such as ``22:00-07:00``."""

        def act(here: Here) -> Any:
            _require_operator(here)
            return quiet_owners.quiet_owner(here.world, owner, quiet_hours, zone, actor=here.actor, reason=reason)

        body = {"quiet_hours": quiet_hours, "zone": zone, **drop_none(reason=reason or None)}
        return Call(OwnerHours, act, at={"owner": owner}, body=body, repeats=True)

    @DELETE("/quiet-owners/{owner}", *ADMIN)
    def lift_quiet(self, owner: str, *, reason: str = "") -> Call[None]:
        """Lift the quiet hours of a tenant; what was put off already starts when they would have ended."""

        def act(here: Here) -> None:
            _require_operator(here)
            quiet_owners.lift_owner(here.world, owner, actor=here.actor, reason=reason)

        return Call(None, act, at={"owner": owner}, query=drop_none(reason=reason or None))


class Secrets(Room[S]):
    """The caller's own secrets. Values go in and never come out, except once for those that are made here."""

    @GET("/secrets", *TENANT)
    def list(self) -> Call[tuple[Secret, ...]]:
        """List the names of your secrets."""
        return Call(tuple[Secret, ...], lambda here: secrets.find_secrets(here.world, owner=here.owner))

    @PUT("/secrets/{name}", *TENANT)
    def put(
        self, name: str, value: str | None = None, *, keep_previous_for: Span = 0, reason: str = ""
    ) -> Call[SecretMade]:
        """Keep a secret, or replace it; without a *value* a signing secret is made and shown once.

        For *keep_previous_for* (seconds, or a timedelta) messages are signed with the one before as well.
        """
        overlap = span(keep_previous_for)

        def act(here: Here) -> SecretMade:
            made = secrets.new_signing_text(here.world) if value is None else None
            stored = secrets.put_secret(
                here.world,
                _sealer(here),
                name,
                made if value is None else value,  # type: ignore[arg-type]  # one of them is there
                owner=here.owner,
                keep_previous_for=overlap,
                actor=here.actor,
                reason=reason,
            )
            return _to_secret_made(stored, made)

        body = drop_none(value=value, keep_previous_for=overlap or None, reason=reason or None)
        return Call(SecretMade, act, at={"name": name}, body=body)

    @POST("/secrets/{name}/rotate", *TENANT)
    def rotate(self, name: str, *, keep_previous_for: Span = secrets.OVERLAP, reason: str = "") -> Call[SecretMade]:
        """Make a new signing secret in place of the old one, shown once; until the end of the overlap both sign."""
        overlap = span(keep_previous_for)

        def act(here: Here) -> SecretMade:
            return _to_secret_made(
                *secrets.rotate_secret(
                    here.world,
                    _sealer(here),
                    name,
                    owner=here.owner,
                    keep_previous_for=overlap,
                    actor=here.actor,
                    reason=reason,
                )
            )

        body = drop_none(keep_previous_for=overlap, reason=reason or None)
        return Call(SecretMade, act, at={"name": name}, body=body)

    @DELETE("/secrets/{name}", *TENANT)
    def delete(self, name: str, *, reason: str = "") -> Call[None]:
        """Forget a secret and the one before it; deliveries that name it fail from now on."""

        def act(here: Here) -> None:
            secrets.delete_secret(here.world, name, owner=here.owner, actor=here.actor, reason=reason)

        return Call(None, act, at={"name": name}, query=drop_none(reason=reason or None))

    @POST("/secrets/reseal", *ADMIN)
    def reseal(self, *, reason: str = "") -> Call[Resealed]:
        """Seal all secrets of all tenants with the operator's current key, so that older keys can be dropped."""

        def act(here: Here) -> Resealed:
            done = secrets.reseal_secrets(here.world, _sealer(here), actor=here.actor, reason=reason)
            return Resealed(resealed=done)

        return Call(Resealed, act, body=drop_none(reason=reason or None) or None, repeats=True)


def _words(scopes: Iterable[str]) -> list[str]:
    words = [word.strip() for word in scopes if word.strip()]
    if len(words) > MOST_SCOPES:
        raise InvalidInput("out_of_range", name="the number of scopes", value=len(words), least=1, most=MOST_SCOPES)
    return words


def _check_owner(owner: str | None) -> None:
    if owner is not None:
        label(owner, "owner")


def _facts(token: core.Token, now: datetime) -> dict[str, Any]:
    """Return the public fields of a stored token."""
    names = (name for name in core.Token.__dataclass_fields__ if name not in HIDDEN | {"token_id"})
    return {"id": token.token_id, "state": token.state(now), **{name: getattr(token, name) for name in names}}


def _after(cursor: str | None) -> tuple[datetime, str] | None:
    values = read_cursor(cursor, int, str, most=LATEST)
    if values is None:
        return None
    made, token_id = values
    if not core.TOKEN_ID.fullmatch(token_id):
        raise not_ours()
    return instant(made), token_id


def _require_operator(here: Here) -> None:
    """Refuse a tenant: its own token with the scope ``read`` passes the check of scopes."""
    if not here.caller.is_operator:
        raise Forbidden("tenants_for_operator_only")


def _owner(owner: str, settings: OwnerSettings) -> Owner:
    special: Owner = enrich(Owner, settings, owner=owner)
    return special


def _to_secret_made(stored: Sealed, text: str | None) -> SecretMade:
    made: SecretMade = enrich(SecretMade, stored, value=text)
    return made


def _sealer(here: Here) -> Sealer:
    sealer = here.sealer()
    if sealer is None:
        raise SecretsLocked("secrets_without_key")
    return sealer
