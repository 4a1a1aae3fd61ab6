"""Saved views."""

from __future__ import annotations

from sqlalchemy import Index

from horae.core.views import View
from horae.stores.codecs import FLAG, INSTANT, NAME, ROW_NUMBER, TEXT, text
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark

VIEWS = Declaration(
    "horae_views",
    View,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("owner", NAME, Mark.FIXED, required=True),
    Field("author", NAME, Mark.FIXED, required=True),
    Field("room", text(20), Mark.FIXED, required=True),
    Field("name", text(100), Mark.FIXED, required=True),
    Field("filter", TEXT, column="wanted", required=True),
    Field("shared", FLAG, required=True),
    Field("created_at", INSTANT, Mark.FIXED, required=True),
    Field("updated_at", INSTANT, required=True),
    Index("horae_views_name", "owner", "author", "room", "name", unique=True),
    info=NEVER_AGAIN,
)
views = VIEWS.table
