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
    from horae.actions.bus import BusStatus
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
    """Say whether events are noted, and how many wait to be published."""
    from horae.actions import bus

    with opened(terminal) as world:
        _print(terminal, world, bus.status)


def _print(terminal: Terminal, world: World, act: Callable[[World], BusStatus]) -> None:
    """Do it in every database of a cluster, and show how the bus stands in all of them."""
    from horae.actions.bus import ask_everywhere

    found, away = ask_everywhere(world, act)
    terminal.missing.update(away)
    document: dict[str, Any] = {**asdict(found), "missing": list(found.missing)}
    terminal.result({"bus": document}, "\n".join(_lines(world, found)))


def _lines(world: World, found: BusStatus) -> list[str]:
    now = world.clock.now()
    switched = "" if found.switched_at is None else f", since {words.both(found.switched_at, now)} by {found.actor}"
    waiting = f"{found.waiting:,} waiting" if found.waiting <= 10_000 else "more than 10,000 waiting"
    first = "" if found.oldest_at is None else f", the first {words.relative(found.oldest_at, now)}"
    lines = [f"events are {'noted' if found.enabled else 'not noted'}{switched}", f"{waiting}{first}"]
    if found.missing:
        lines.append(f"triggers are missing: {', '.join(found.missing)}; run horae bus on again")
    return lines
