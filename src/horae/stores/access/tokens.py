"""Tokens of the service: rows to values and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, insert, or_, select, update

from horae.core.access.callers import Token
from horae.core.time.instants import micros
from horae.stores.tables import TOKENS, tokens

CHUNK = 500  # ids in one IN list


class Tokens:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, token_id: str) -> Token | None:
        row = self.connection.execute(select(*TOKENS.select).where(tokens.c.id == token_id)).first()
        return None if row is None else TOKENS.read(row)

    def find(self, owner: str | None, *, limit: int, after: tuple[datetime, str] | None = None) -> list[Token]:
        """Return a page of tokens, newest first; *after* is creation and id of the last one of the page before."""
        query = select(*TOKENS.select).order_by(tokens.c.created_at.desc(), tokens.c.id).limit(limit)
        query = query if owner is None else query.where(tokens.c.owner == owner)
        if after is not None:
            made, token_id = micros(after[0]), after[1]
            same = and_(tokens.c.created_at == made, tokens.c.id > token_id)
            query = query.where(or_(tokens.c.created_at < made, same))
        return [TOKENS.read(row) for row in self.connection.execute(query)]

    def add(self, token: Token) -> None:
        self.connection.execute(insert(tokens), TOKENS.row(token))

    def revoke(self, token_id: str, *, actor: str, now: datetime) -> bool:
        """Revoke a token; return False when it is unknown or was revoked before."""
        open_one = (tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
        done = self.connection.execute(update(tokens).where(*open_one).values(revoked_at=micros(now), revoked_by=actor))
        return done.rowcount == 1

    def valid(self, token_ids: Collection[str], now: datetime) -> set[str]:
        """Return which of these are neither revoked nor expired."""
        found: set[str] = set()
        for chunk in batched(sorted(token_ids), CHUNK):
            open_end = or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > micros(now))
            query = select(tokens.c.id).where(tokens.c.id.in_(chunk), tokens.c.revoked_at.is_(None), open_end)
            found |= set(self.connection.execute(query).scalars())
        return found

    def mark_used(self, token_id: str, *, address: str | None, now: datetime) -> None:
        statement = update(tokens).where(tokens.c.id == token_id)
        self.connection.execute(statement.values(used_at=micros(now), used_from=address))


def batched(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))
