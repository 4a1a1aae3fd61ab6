"""Acts that cite governed objects: held until what they rest on can be relied on, or a person confirms them (G7).

A held act waits as a confirmation does, with a deadline. Where its objects are verified meanwhile, the wait is granted
in the name of governance; such a grant is checked again when it is used, one of a person is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from horae.actions.attention.lanes import LaneWriter
from horae.actions.attention.waits import decide
from horae.actions.governance.act_gate import objections, unknown_cite
from horae.actions.governance.rulings import DECISION
from horae.actions.governance.verdicts import Given, verify_now
from horae.core.access.callers import Caller
from horae.core.attention.lanes import TaskWait
from horae.core.jobs.payloads import decode
from horae.errors import HoraeError
from horae.ports.world import World

GOVERNANCE = "system/governance"
HELD = "cites:"  # how the keys of these waits begin
MOST = 20  # held acts that are looked at in one pass


def why_refused(writer: LaneWriter, cites: Sequence[str]) -> str | None:
    """Say why an act cannot be done at all: it cites something that does not exist."""
    unknown = None if not cites else unknown_cite(writer.tx, writer.lane.owner, cites)
    return None if unknown is None else f"there is no {unknown.kind} {unknown.id!r} to cite"


def why_held(writer: LaneWriter, intent: Mapping[str, Any]) -> list[str]:
    """Say why an act has to wait: what it cites cannot be relied on now."""
    cites = intent.get("cites") or ()
    return [each.text for each in objections(writer.tx, writer.lane.owner, cites, writer.now)] if cites else []


def ask_for_looks(world: World, owner: str, lane: str, cites: Sequence[str]) -> None:
    """Ask for a verification of what holds an act, each in a transaction of its own; what cannot be asked for waits."""
    caller = Caller(owner, frozenset({"tasks"}), f"agent/{lane}")
    for cite in cites:
        if not cite.startswith(DECISION):
            with suppress(HoraeError):
                verify_now(world, Given(cite, owner, caller, reason="an act of high risk relies on it"))


def is_stale_grant(writer: LaneWriter, wait: TaskWait, intent: Mapping[str, Any]) -> bool:
    """Return whether governance has granted an act that by now would be held again."""
    return wait.decided_by == GOVERNANCE and bool(why_held(writer, intent))


def release_held(writer: LaneWriter) -> int:
    """Grant the acts whose objects can be relied on by now, and return how many."""
    held = writer.tx.attention.open_waits_like(writer.lane.number, HELD, limit=MOST)
    sound = [wait for wait in held if not why_held(writer, decode(wait.intent or "{}"))]
    for wait in sound:
        decide(writer, wait, approve=True, actor=GOVERNANCE, reason="what it cites can be relied on")
    return len(sound)
