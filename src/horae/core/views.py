"""Saved views: a name for a filter of a room, of one person or shared with all of its tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from horae.core.dataclass import dataclass
from horae.core.jobs.filters import parse_filter
from horae.core.jobs.payloads import label
from horae.errors import InvalidInput, NotFound

ViewRoom = Literal["jobs", "schedules", "tasks", "queues", "workers", "errors", "attention", "governance", "audit"]
VIEW_ROOMS: tuple[str, ...] = get_args(ViewRoom)
LONGEST_NAME = 100
LONGEST_FILTER = 2000
MOST = 200  # of one person
_PREFIX = "view_"


@dataclass(frozen=True, slots=True)
class View:
    """A filter that its author gave a name."""

    owner: str
    author: str
    room: ViewRoom
    name: str
    filter: str
    created_at: datetime
    updated_at: datetime
    shared: bool = False
    number: int = 0

    @property
    def id(self) -> str:
        return f"{_PREFIX}{self.number}"


def check_view(view: View) -> View:
    """Refuse a view that cannot be stored, or whose filter the room would refuse."""
    if view.room not in VIEW_ROOMS:
        raise InvalidInput("choice_unknown", name="room", value=str(view.room), choices=list(VIEW_ROOMS))
    label(view.name, "name", LONGEST_NAME)
    if len(view.filter) > LONGEST_FILTER:
        raise InvalidInput("view_filter_too_long", most=LONGEST_FILTER)
    if not view.filter.isprintable():
        raise InvalidInput("view_filter_not_one_line")
    if view.room == "jobs":
        parse_filter(view.filter, now=view.updated_at)  # a mistake is refused with its position, and not stored
    return view


def view_number(view_id: str) -> int:
    """Return the number behind ``view_12``; anything else cannot name a view."""
    digits = view_id.removeprefix(_PREFIX)
    if view_id.startswith(_PREFIX) and digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(digits)
    raise NotFound("view_unknown", id=view_id)
