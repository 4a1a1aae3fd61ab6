"""``horae demo governance`` while it runs: plays stories, and tells them from the entries that they left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from horae.actions.governance.invariants import check_objects
from horae.api.audit import AuditEntry
from horae.cli.demo.crash import killed_inside
from horae.cli.demo.memories import BEGINS, STORIES, Stage, Story
from horae.cli.terminal import Terminal
from horae.core.time.instants import iso

JOB_VERBS = {"admitted", "planned", "renewed", "acknowledged"}  # about jobs: every action has them
MODULE = "horae.cli.demo.narration"
WIDTHS = (16, 24, 38)


async def tell(terminal: Terminal, database: Path, numbers: Iterable[int], *, crash: bool) -> None:
    """Play stories one after the other, each told from its entries and ended with its proof."""
    wanted = [each for each in STORIES if each.number in set(numbers)]
    starts_at = BEGINS
    if crash:
        arguments = {"database": str(database), "story": wanted[0].number}
        starts_at = await asyncio.to_thread(killed_inside, MODULE, arguments)
    stage = Stage(database, starts_at=starts_at)
    stage.held = 2 * stage.lab.lease if crash else stage.held
    async with stage.lab:
        for story in wanted:
            last = 0 if story is wanted[0] else next(iter(stage.app.audit.list(limit=1))).id
            await _tell_one(terminal, stage, story, last)
        if crash:
            _prove(terminal, 0, _crash_proof(stage, wanted[0]))
        _prove(terminal, 0, _whole_proof(stage))


async def _tell_one(terminal: Terminal, stage: Stage, story: Story, last: int) -> None:
    terminal.event({"event": "story", "story": story.number, "title": story.title})
    _say(terminal, terminal.bold(f"{story.number}. {story.title}"))
    _say(terminal, "")
    await story.play(stage)
    for entry in _about(stage, story, last):
        terminal.event({"event": "entry", "story": story.number, **_fields(entry)})
        _say(terminal, _line(entry))
    _say(terminal, "")
    _prove(terminal, story.number, story.prove(stage))
    _say(terminal, "")


def _about(stage: Stage, story: Story, after: int) -> Iterator[AuditEntry]:
    """Yield the entries of a story in their order: about its objects, and about what was decided on them.

    Decisions that an object's own entry links are left out: every entry of high risk has one.
    """
    found = [each for each in stage.app.audit.list(owner="system") if each.id > after and each.verb not in JOB_VERBS]
    objects = [each for each in found if each.object_id in story.objects]
    linked = {each.decision for each in objects if each.verb != "open_review"}
    decided = [
        each
        for each in found
        if each.object_type == "decision"
        and each.object_id not in linked
        and any(ref.partition(":")[2] in story.objects for ref in each.after.get("cites", ()))
    ]
    yield from sorted([*objects, *decided], key=lambda entry: entry.id)


def _fields(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.id, "at": iso(entry.at), "about": f"{entry.object_type}:{entry.object_id}", "verb": entry.verb,
        "event_kind": entry.event_kind, "before": _state(entry.before), "after": _state(entry.after),
        "actor": entry.actor, "evidence": list(entry.evidence), "decision": entry.decision,
    }  # fmt: skip


def _line(entry: AuditEntry) -> str:
    before, after = _state(entry.before), _state(entry.after)
    way = after if before in (None, after) else f"{before} -> {after}"
    if entry.object_type == "decision":
        name, way = "decision", f"{entry.after.get('outcome', 'taken back')} ({entry.risk} risk)"
    else:
        name = entry.object_id
    cells = (f"{entry.at:%Y-%m-%d %H:%M}", f"{name} {entry.verb}", way or "")
    padded = "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
    return f"{padded}  {_by(entry)}".rstrip()


def _by(entry: AuditEntry) -> str:
    """Say who did it: the actor, or the verdict of the verifier."""
    verdict = entry.after.get("verdict")
    return f"{entry.after.get('action', entry.actor)}: {verdict}" if verdict else entry.actor


def _state(facts: Any) -> str | None:
    status = facts.get("status")
    return status if status is None or "epistemic_state" not in facts else f"{status}/{facts['epistemic_state']}"


def _crash_proof(stage: Stage, story: Story) -> str:
    entries = [each for name in story.objects for each in stage.app.objects.history(name)]
    lost = sum(each.verb == "lost" for each in entries)
    ended = [each.job for each in entries if each.after.get("verdict")]
    once = "no verdict was applied twice" if len(set(ended)) == len(ended) else "a verdict was applied twice"
    return f"killed inside the verifier: {lost} attempt lost and handed on, {once}"


def _whole_proof(stage: Stage) -> str:
    broken = check_objects(stage.app.world)
    chain = stage.app.audit.verify()
    entries = sum(each.entries for each in chain.chains)
    sound = "their chain is valid" if chain.sound else "their chain is broken"
    holds = "every object has its one planned job" if not broken else "; ".join(map(str, broken))
    return f"{entries} entries, {sound}; {holds}"


def _prove(terminal: Terminal, number: int, text: str) -> None:
    terminal.event({"event": "proved", "story": number or None, "text": text})
    _say(terminal, f"   proof: {text}")


def _say(terminal: Terminal, text: str) -> None:
    if not terminal.is_json:
        terminal.out(text)


def live(arguments: dict[str, Any]) -> None:
    """Play a story as the process that is killed: print when it is inside the verifier, and never get any further."""
    import sys

    stage = Stage(Path(arguments["database"]))

    def die() -> None:
        print(iso(stage.lab.now), flush=True)
        sys.stdin.read()  # until it is killed, or the process that should kill it is gone

    stage.before_look = die
    (story,) = [each for each in STORIES if each.number == arguments["story"]]

    async def play() -> None:
        async with stage.lab:
            await story.play(stage)

    asyncio.run(play())


if __name__ == "__main__":
    import json
    import sys

    live(json.loads(sys.argv[1]))
