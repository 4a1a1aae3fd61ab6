"""The menu: ten entries at most, in the order of how often they are needed, and what belongs under them."""

from __future__ import annotations

from horae.console.texts import gettext, mark
from horae.console.visitor import Visit
from horae.core.dataclass import dataclass


@dataclass(frozen=True)
class Entry:
    """A page that can be reached from everywhere; *under* names the entry that it belongs to."""

    path: str
    text: str
    scopes: tuple[str, ...]
    key: str  # pressed after "g"
    under: str = ""


@dataclass(frozen=True)
class Link:
    """An entry as this reader sees it."""

    url: str
    text: str
    key: str
    is_current: bool
    is_inner: bool


# One line for each page, in the order of the menu. A page that a caller has no scope for is not listed.
ENTRIES: tuple[Entry, ...] = (
    Entry("/", mark("Home"), ("read", "tasks", "worker", "admin"), "h"),
    Entry("/jobs", mark("Jobs"), ("read", "tasks", "worker"), "j"),
    Entry("/errors", mark("Errors"), ("read", "tasks", "worker"), "e", under="/jobs"),
    Entry("/batches", mark("Batches"), ("read", "tasks", "worker"), "b", under="/jobs"),
    Entry("/schedules", mark("Schedules"), ("read", "admin"), "s"),
    Entry("/forecast", mark("Forecast"), ("read", "admin"), "f", under="/schedules"),
    Entry("/calendars", mark("Calendars"), ("read", "admin"), "d", under="/schedules"),
    Entry("/tasks", mark("Tasks"), ("read", "tasks"), "t"),
    Entry("/queues", mark("Queues"), ("read", "admin"), "q"),
    Entry("/workers", mark("Workers"), ("read", "admin"), "w"),
    Entry("/attention", mark("Attention"), ("read", "tasks", "admin"), "a"),
    Entry("/governance", mark("Governance"), ("read", "tasks", "review"), "g"),
    Entry("/audit", mark("Audit"), ("read", "admin"), "u"),
    Entry("/settings", mark("Settings"), ("read", "tasks", "worker", "review", "admin"), "c"),
)


def entries_for(visit: Visit) -> list[Link]:
    """Return the entries that the visitor may open."""
    if visit.caller is None:
        return []
    here = visit.request.url.path.removeprefix(visit.root) or "/"
    allowed = [each for each in ENTRIES if visit.caller.may(*each.scopes)]
    current = max(
        (each.path for each in allowed if here == each.path or here.startswith(f"{each.path.rstrip('/')}/")),
        key=len,
        default="",
    )
    return [
        Link(visit.url(each.path), gettext(each.text), each.key, each.path == current, bool(each.under))
        for each in allowed
    ]
