"""The parameters of keyset paging."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

MAX_LIMIT = 1000
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=2000, description="Where to go on: `next_cursor` of the page before.")]
