"""The verbs of saved views: save, list, share, delete.

A view is a convenience of its author; what becomes of a shared one concerns others and is audited.
"""

from __future__ import annotations

from dataclasses import replace

from horae.core.audit.entries import Entry
from horae.core.views import MOST, View, ViewRoom, check_view, view_number
from horae.errors import Conflict, Forbidden, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

MOST_LISTED = 1000


def save_view(
    world: World,
    name: str,
    filter: str,  # noqa: A002  # the public name of the field
    *,
    owner: str,
    author: str,
    room: ViewRoom = "jobs",
    shared: bool = False,
    reason: str = "",
) -> View:
    """Store a view, or give one of this name another filter."""
    now = world.clock.now()
    wanted = check_view(View(owner, author, room, name, filter, now, now, shared))

    def write(tx: Tx) -> View:
        before = tx.views.named(owner, author, room, name)
        if before is None:
            if tx.views.count(owner, author) >= MOST:
                raise Conflict("too_many_views", most=MOST)
            saved = replace(wanted, number=tx.views.add(wanted))
        else:
            saved = replace(before, filter=filter, shared=shared, updated_at=now)
            tx.views.put(saved)
        _note(tx, "put", before, saved, author, reason)
        return saved

    return world.route(owner=owner).store.transact(write)


def find_views(world: World, *, owner: str, author: str, room: ViewRoom | None = None) -> list[View]:
    """Return a person's own views and those shared in its tenant, by name."""
    return world.route(owner=owner).store.read(lambda tx: tx.views.find(owner, author, room, limit=MOST_LISTED))


def share_view(
    world: World, view_id: str, *, owner: str, author: str, shared: bool = True, reason: str = ""
) -> View:  # fmt: skip
    """Show a view to all of its tenant, or to its author alone."""
    now = world.clock.now()

    def write(tx: Tx) -> View:
        before = _own(tx, view_id, owner, author)
        after = replace(before, shared=shared, updated_at=now)
        tx.views.put(after)
        _note(tx, "share", before, after, author, reason)
        return after

    return world.route(owner=owner).store.transact(write)


def delete_view(
    world: World, view_id: str, *, owner: str, author: str, any_author: bool = False, reason: str = ""
) -> None:
    """Delete a view of one's own; with *any_author* also one that another author shares."""

    def write(tx: Tx) -> None:
        before = _own(tx, view_id, owner, author, any_author=any_author)
        tx.views.remove(before.number)
        _note(tx, "delete", before, None, author, reason)

    world.route(owner=owner).store.transact(write)


def _own(tx: Tx, view_id: str, owner: str, author: str, *, any_author: bool = False) -> View:
    """Return a view that the caller may change; one that it cannot see is not found."""
    view = tx.views.get(view_number(view_id), lock=True)
    if view is None or view.owner != owner or (view.author != author and not view.shared):
        raise NotFound("view_unknown", id=view_id)
    if view.author != author and not any_author:
        raise Forbidden("view_of_another", id=view_id, author=view.author)
    return view


def _note(tx: Tx, verb: str, before: View | None, after: View | None, actor: str, reason: str) -> None:
    """Write the audit entry, where others see the view, or saw it."""
    seen = [each for each in (before, after) if each is not None and each.shared]
    if seen:
        at = seen[-1].updated_at
        old, new = ({} if each is None else _audited_fields(each) for each in (before, after))
        entry = Entry(
            at, actor, verb, "view", seen[-1].id, owner=seen[-1].owner, reason=reason or None, before=old, after=new
        )
        tx.audit.append(entry)


def _audited_fields(view: View) -> dict[str, str | bool]:
    return {"room": view.room, "name": view.name, "filter": view.filter, "shared": view.shared}
