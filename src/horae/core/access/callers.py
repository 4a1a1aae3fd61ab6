"""Callers and their permissions: scopes, tokens, callers.

A token is ``horae_<id>_<secret><check>``. The id finds the row (in a cluster it begins with the virtual shard of its
owner, ``17x…``), the secret proves it, the check lets log filters and secret scanners recognise one without a database.
Only a digest of the secret is stored: it is 256 random bits, so a fast hash is right. ``system`` is the operator's own
name: its callers see every tenant, all others see themselves.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import zlib
from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from typing import Any, Literal, TypedDict, get_args

from horae.core.cluster.numbers import VSHARDS
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.errors import Forbidden, InvalidInput, NotFound

Scope = Literal["tasks", "worker", "read", "review", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PREFIX = "horae"
UNATTENDED = frozenset({"agent", "anybody", "app", "system", "worker"})  # actors behind which no person stands
ID_LENGTH = 12
SECRET_LENGTH = 64  # hexadecimal: 256 bits
_ID = rf"(?:[0-9]{{1,4}}x)?[0-9a-f]{{{ID_LENGTH}}}"
TOKEN_ID = re.compile(_ID)
_TOKEN = re.compile(rf"{PREFIX}_({_ID})_([0-9a-f]{{{SECRET_LENGTH}}})([0-9a-f]{{8}})")
_LIKE_TOKEN = re.compile(rf"{PREFIX}_({_ID})_\w+")  # also one that was cut or mistyped: what is missing can be guessed


class Reach(TypedDict):
    """The rows that a caller sees, as arguments of verbs: of which owner and queues (none named: of any)."""

    owner: str | None
    queues: frozenset[str]


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    owner: str
    scopes: frozenset[str]
    actor: str  # for the audit: "token/6f1c…", "user/alice", "cli/bob"
    queues: frozenset[str] = frozenset()  # the only ones that it reaches; empty: every queue
    token_id: str | None = None
    expires_at: datetime | None = field(default=None, compare=False)  # until when it is recognised
    agent: str | None = None  # the agent that holds the token; it acts for no other, and is no person
    session_id: str | None = field(default=None, compare=False)  # of the console, if it is a browser

    @property
    def is_operator(self) -> bool:
        """Whether it acts for the house and not for one tenant."""
        return self.owner == SYSTEM or "admin" in self.scopes

    @property
    def sees(self) -> str | None:
        """The tenant whose rows it sees; None for those of all tenants."""
        return None if self.is_operator else self.owner

    @property
    def reach(self) -> Reach:
        return {"owner": self.sees, "queues": self.queues}

    def resolve_owner(self, asked: str | None) -> str:
        """Return the tenant to act for: the one an operator names, or its own; otherwise always the caller's."""
        if self.sees is None:
            return asked or SYSTEM
        if asked not in (None, self.sees):
            raise NotFound("tenant_unknown", owner=asked)
        return self.sees

    def filter_owner(self, asked: str | None) -> str | None:
        """Return the tenant whose list is meant; None for all tenants, which only an operator sees."""
        return asked if self.sees is None else self.resolve_owner(asked)

    @property
    def is_person(self) -> bool:
        """Whether a person stands behind it who may answer for others: no agent's token, no code of an application."""
        return self.agent is None and self.may("review") and self.actor.partition("/")[0] not in UNATTENDED

    def require_person(self) -> None:
        if not self.is_person:
            raise Forbidden("person_needed", actor=self.actor)

    def resolve_agent(self, asked: str | None) -> str | None:
        """Return the agent to act for: the one that is named, or the one that holds the token, and then no other."""
        if self.agent is not None and asked not in (None, self.agent):
            raise Forbidden("agent_of_token", agent=self.agent)
        return asked or self.agent

    @property
    def identity(self) -> str:
        """The identity of the caller: its token, or its user."""
        return self.token_id or f"{self.actor}\0{self.owner}"

    def may(self, *scopes: str) -> bool:
        """Return whether one of these scopes is held; ``admin`` includes every other."""
        return "admin" in self.scopes or not self.scopes.isdisjoint(scopes)

    def require(self, *scopes: str) -> None:
        if not self.may(*scopes):
            raise Forbidden("scope_missing", needed=list(scopes), held=sorted(self.scopes))

    def require_queue(self, queue: str) -> None:
        if self.queues and queue not in self.queues:
            raise Forbidden("queue_not_served", queue=queue, queues=sorted(self.queues))

    def require_all_queues(self) -> None:
        """Refuse a token that is limited to queues where nothing tells one queue's things from another's."""
        if self.queues:
            raise Forbidden("not_limited_to_queues", queues=sorted(self.queues))


@dataclass(frozen=True, slots=True)
class Token:
    """A token as stored and shown: never its secret."""

    token_id: str
    digest: str
    owner: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    created_by: str
    queues: tuple[str, ...] = ()
    expires_at: datetime | None = None
    used_at: datetime | None = None
    used_from: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    agent: str | None = None

    def state(self, now: datetime) -> Literal["valid", "expired", "revoked"]:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"

    @property
    def caller(self) -> Caller:
        return Caller(
            self.owner,
            frozenset(self.scopes),
            f"token/{self.token_id}",
            frozenset(self.queues),
            self.token_id,
            self.expires_at,
            self.agent,
        )


def token_text(token_id: str, secret: str) -> str:
    """Return the whole token, as its owner keeps it."""
    return f"{PREFIX}_{token_id}_{secret}{_check(token_id, secret)}"


def parse_token(text: str) -> tuple[str, str] | None:
    """Return id and secret of a token; None for any text that is not a token of Horae."""
    found = _TOKEN.fullmatch(text)
    if found is None or found[3] != _check(found[1], found[2]):
        return None
    if "x" in found[1] and vshard_of_token(found[1]) is None:
        return None
    return found[1], found[2]


def token_id_for(vshard: int | None, drawn: str) -> str:
    """Return the id of a new token; in a cluster it names the virtual shard of its owner."""
    return drawn if vshard is None else f"{vshard}x{drawn}"


def vshard_of_token(token_id: str) -> int | None:
    """Return the virtual shard that a token's id names; None where it names none, or one that cannot be."""
    digits, x, _ = token_id.partition("x")
    vshard = int(digits) if x and digits.isascii() and digits.isdigit() and len(digits) < 5 else VSHARDS
    return vshard if vshard < VSHARDS else None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def is_secret_of(token: Token, secret: str) -> bool:
    """Return whether the secret belongs to the digest, in constant time."""
    return hmac.compare_digest(token.digest, digest_of(secret))


def mask_tokens(text: str) -> str:
    """Return the text with whatever looks like a token of ours, or its beginning, made unreadable."""
    return _LIKE_TOKEN.sub(lambda found: f"{PREFIX}_{found[1]}_…", text)


def mask_token_values(value: Any) -> Any:
    """Return a JSON value with every text in it masked: callers send their tokens in the wrong places too."""
    if isinstance(value, dict):
        return {name: mask_token_values(each) for name, each in value.items()}
    if isinstance(value, list):
        return [mask_token_values(each) for each in value]
    return mask_tokens(value) if isinstance(value, str) else value


def scopes_from(words: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes named by these words; refuse unknown ones."""
    scopes = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        raise InvalidInput("scope_unknown", scope=unknown[0], choices=list(SCOPES))
    if not scopes:
        raise InvalidInput("scopes_missing", choices=list(SCOPES))
    return scopes


def _check(token_id: str, secret: str) -> str:
    return f"{zlib.crc32(f'{token_id}_{secret}'.encode()):08x}"
