"""Tokens of the service: rows to values and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, insert, or_, select, update

from horae.core.access import Token
from horae.core.instants import instant, micros
from horae.stores.rows import at, to_micros
from horae.stores.tables import tokens

CHUNK = 500  # ids in one IN list


class Tokens:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, token_id: str) -> Token | None:
        row = self.connection.execute(select(tokens).where(tokens.c.id == token_id)).mappings().first()
        return None if row is None else _token(row)

    def find(self, owner: str | None, *, limit: int, after: tuple[datetime, str] | None = None) -> list[Token]:
        """Newest first; *after* says when the last one of the page before was made, and its id."""
        query = select(tokens).order_by(tokens.c.created_at.desc(), tokens.c.id).limit(limit)
        query = query if owner is None else query.where(tokens.c.owner == owner)
        if after is not None:
            made, token_id = micros(after[0]), after[1]
            same = and_(tokens.c.created_at == made, tokens.c.id > token_id)
            query = query.where(or_(tokens.c.created_at < made, same))
        return [_token(row) for row in self.connection.execute(query).mappings()]

    def add(self, token: Token) -> None:
        row = {
            "id": token.token_id,
            "digest": token.digest,
            "owner": token.owner,
            "name": token.name,
            "scopes": json.dumps(list(token.scopes)),
            "queues": json.dumps(list(token.queues)),
            "created_at": micros(token.created_at),
            "created_by": token.created_by,
            "expires_at": to_micros(token.expires_at),
        }
        self.connection.execute(insert(tokens), row)

    def revoke(self, token_id: str, *, actor: str, now: datetime) -> bool:
        """False when there is no such token, or it was revoked before."""
        open_one = (tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
        done = self.connection.execute(update(tokens).where(*open_one).values(revoked_at=micros(now), revoked_by=actor))
        return done.rowcount == 1

    def valid(self, token_ids: Collection[str], now: datetime) -> set[str]:
        """Which of these are neither revoked nor expired."""
        found: set[str] = set()
        for chunk in batched(sorted(token_ids), CHUNK):
            open_end = or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > micros(now))
            query = select(tokens.c.id).where(tokens.c.id.in_(chunk), tokens.c.revoked_at.is_(None), open_end)
            found |= set(self.connection.execute(query).scalars())
        return found

    def used(self, token_id: str, *, address: str | None, now: datetime) -> None:
        mine = update(tokens).where(tokens.c.id == token_id)
        self.connection.execute(mine.values(used_at=micros(now), used_from=address))


def batched(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def _token(row: Mapping[Any, Any]) -> Token:
    return Token(
        token_id=row["id"],
        digest=row["digest"],
        owner=row["owner"],
        name=row["name"],
        scopes=tuple(json.loads(row["scopes"])),
        queues=tuple(json.loads(row["queues"])),
        created_at=instant(row["created_at"]),
        created_by=row["created_by"],
        expires_at=at(row["expires_at"]),
        used_at=at(row["used_at"]),
        used_from=row["used_from"],
        revoked_at=at(row["revoked_at"]),
        revoked_by=row["revoked_by"],
    )
