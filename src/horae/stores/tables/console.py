"""The console's own rows: browsers that are logged in, and one-time codes that log one in."""

from __future__ import annotations

from sqlalchemy import Index

from horae.core.access.sessions import LoginCode, Session
from horae.stores.codecs import INSTANT, NAME, WORDS, text
from horae.stores.declaration import Declaration, Field, Mark

SESSIONS = Declaration(
    "horae_sessions",
    Session,
    Field("session_id", text(32), Mark.FIXED, column="id", primary_key=True),
    Field("digest", text(64), Mark.FIXED, required=True),
    Field("csrf", text(64), Mark.FIXED, required=True),
    Field("owner", NAME, Mark.FIXED, required=True),
    Field("scopes", WORDS, Mark.FIXED, required=True),
    Field("actor", NAME, Mark.FIXED, required=True),
    Field("created_at", INSTANT, Mark.FIXED, required=True),
    Field("seen_at", INSTANT, required=True),
    Field("expires_at", INSTANT, Mark.FIXED, required=True),
    Field("queues", WORDS, Mark.FIXED, required=True),
    Field("token_id", text(32), Mark.FIXED),
    Field("address", text(64), Mark.FIXED),
    Index("horae_sessions_seen", "seen_at", "id"),
)
sessions = SESSIONS.table

LOGIN_CODES = Declaration(
    "horae_login_codes",
    LoginCode,
    Field("digest", text(64), primary_key=True),
    Field("token_id", text(32), required=True),
    Field("created_at", INSTANT, required=True),
    Field("expires_at", INSTANT, required=True),
)
login_codes = LOGIN_CODES.table
