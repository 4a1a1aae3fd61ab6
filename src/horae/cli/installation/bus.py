"""``horae bus``: let the database note events for a message bus, and see how far they are published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from horae.cli import words
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, actor, command, opened

if TYPE_CHECKING:
    from horae.actions.bus import BusMember, BusStatus
    from horae.ports.world import World

group = typer.Typer(help="Publish what happens to a message bus.", no_args_is_help=True, rich_markup_mode=None)


@command(group, "on", examples=("horae bus on --reason 'the warehouse listens'",))
def on(terminal: Terminal, reason: Reason = "") -> None:
    """Note an event for every enqueue, end of an attempt and fire.

    Makes triggers, so the role must be allowed to. Workers and servers with HORAE_NATS publish what was noted.
    """
    from horae.actions import bus

    with opened(terminal) as world:
        _print(terminal, world, lambda each: bus.switch_on(each, actor=actor(terminal), reason=reason))


@command(group, "off")
def off(terminal: Terminal, reason: Reason = "") -> None:
    """Note no further events; those that were noted are still published."""
    from horae.actions import bus

    with opened(terminal) as world:
        _print(terminal, world, lambda each: bus.switch_off(each, actor=actor(terminal), reason=reason))


@command(group, "status")
def status(terminal: Terminal) -> None:
    """Say what waits to be published, and which processes relay.

    In a cluster for each database.
    """
    from horae.actions import bus

    with opened(terminal) as world:
        found, away = bus.look_everywhere(world)
        terminal.missing.update(away)
        whole, _ = bus.ask_everywhere(world, bus.status)
        lines = [*_lines(world, whole), *(_member_line(world, each) for each in found)]
        terminal.result({"bus": {**_document(whole), "databases": [_member(each) for each in found]}}, "\n".join(lines))


def _member(member: BusMember) -> dict[str, Any]:
    known = member.status
    return {
        "name": member.name, "enabled": known.enabled, "waiting": known.waiting, "oldest_at": known.oldest_at,
        "publisher": member.publisher, "relay": member.relay,
    }  # fmt: skip


def _member_line(world: World, member: BusMember) -> str:
    known, now = member.status, world.clock.now()
    behind = "none waiting"
    if known.waiting:
        since = "" if known.oldest_at is None else f", the first {words.relative(known.oldest_at, now)}"
        behind = f"{known.waiting:,} waiting{since}"
    publisher, relay = member.publisher or "no process", member.relay or "no process"
    return f"{member.name or 'database'}: {behind}; events published by {publisher}, jobs handed out by {relay}"


def _print(terminal: Terminal, world: World, act: Callable[[World], BusStatus]) -> None:
    """Do it in every database of a cluster, and show how the bus stands in all of them."""
    from horae.actions.bus import ask_everywhere

    found, away = ask_everywhere(world, act)
    terminal.missing.update(away)
    terminal.result({"bus": _document(found)}, "\n".join(_lines(world, found)))


def _document(found: BusStatus) -> dict[str, Any]:
    return {**asdict(found), "missing": list(found.missing)}


def _lines(world: World, found: BusStatus) -> list[str]:
    now = world.clock.now()
    switched = "" if found.switched_at is None else f", since {words.both(found.switched_at, now)} by {found.actor}"
    waiting = f"{found.waiting:,} waiting" if found.waiting <= 10_000 else "more than 10,000 waiting"
    first = "" if found.oldest_at is None else f", the first {words.relative(found.oldest_at, now)}"
    lines = [f"events are {'noted' if found.enabled else 'not noted'}{switched}", f"{waiting}{first}"]
    if found.missing:
        lines.append(f"triggers are missing: {', '.join(found.missing)}; run horae bus on again")
    return lines
