"""Sessions of the console and login codes: rows to values and back."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select, update

from horae.core.access.sessions import IDLE, LoginCode, Session
from horae.core.time.instants import micros
from horae.stores.tables.console import LOGIN_CODES, SESSIONS, login_codes, sessions


class Sessions:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, session_id: str) -> Session | None:
        row = self.connection.execute(select(*SESSIONS.select).where(sessions.c.id == session_id)).first()
        return None if row is None else SESSIONS.read(row)

    def find(
        self, owner: str | None, now: datetime, *, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[Session]:
        """Return a page of sessions that have not ended, those seen last first."""
        query = select(*SESSIONS.select).where(*_alive(now))
        query = query if owner is None else query.where(sessions.c.owner == owner)
        if after is not None:
            seen, session_id = micros(after[0]), after[1]
            same = and_(sessions.c.seen_at == seen, sessions.c.id > session_id)
            query = query.where(or_(sessions.c.seen_at < seen, same))
        query = query.order_by(sessions.c.seen_at.desc(), sessions.c.id).limit(limit)
        return [SESSIONS.read(row) for row in self.connection.execute(query)]

    def open(self, session_ids: Collection[str], now: datetime) -> set[str]:
        """Return which of these, of a thousand at most, have not ended."""
        query = select(sessions.c.id).where(sessions.c.id.in_(session_ids), *_alive(now))
        return set(self.connection.execute(query).scalars())

    def add(self, session: Session) -> None:
        self.connection.execute(insert(sessions), SESSIONS.row(session))

    def mark_seen(self, session_id: str, now: datetime) -> None:
        self.connection.execute(update(sessions).where(sessions.c.id == session_id).values(seen_at=micros(now)))

    def remove(self, session_id: str) -> bool:
        """Delete a session; return False when there is none."""
        return self.connection.execute(delete(sessions).where(sessions.c.id == session_id)).rowcount == 1

    def add_code(self, code: LoginCode) -> None:
        self.connection.execute(insert(login_codes), LOGIN_CODES.row(code))

    def get_code(self, digest: str) -> LoginCode | None:
        row = self.connection.execute(select(*LOGIN_CODES.select).where(login_codes.c.digest == digest)).first()
        return None if row is None else LOGIN_CODES.read(row)

    def take_code(self, digest: str) -> LoginCode | None:
        """Delete a code and return it; None when there is none, or another transaction takes it."""
        row = self.connection.execute(select(*LOGIN_CODES.select).where(login_codes.c.digest == digest)).first()
        taken = self.connection.execute(delete(login_codes).where(login_codes.c.digest == digest)).rowcount
        return LOGIN_CODES.read(row) if row is not None and taken == 1 else None

    def forget(self, now: datetime, *, limit: int) -> int:
        """Delete sessions and codes that have ended, at most so many of each."""
        old = or_(sessions.c.expires_at <= micros(now), sessions.c.seen_at <= micros(now - IDLE))
        ids = list(self.connection.execute(select(sessions.c.id).where(old).limit(limit)).scalars())
        if ids:
            self.connection.execute(delete(sessions).where(sessions.c.id.in_(ids)))
        late = select(login_codes.c.digest).where(login_codes.c.expires_at <= micros(now)).limit(limit)
        digests = list(self.connection.execute(late).scalars())
        if digests:
            self.connection.execute(delete(login_codes).where(login_codes.c.digest.in_(digests)))
        return len(ids) + len(digests)


def _alive(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return sessions.c.expires_at > micros(now), sessions.c.seen_at > micros(now - IDLE)
