"""``horae object``: what agents remember, and what becomes due about it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.arguments import instant_from
from horae.cli.files import STDOUT, open_lines
from horae.cli.governance import object_verbs
from horae.cli.governance.decide import Owner
from horae.cli.governance.object_verbs import Id, Pieces, Version, line_about
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

if TYPE_CHECKING:
    from datetime import datetime

    from horae.api.governance.object_values import GovernedObject, RecalledObject

group = typer.Typer(
    help="See, judge and end what agents remember, and erase it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Kind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="memory, experience or cognition.")]
LIMIT = Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")]


@command(
    group,
    "propose",
    by_url=True,
    examples=("horae object propose memory 'Ann likes tea' --subject Ann --evidence chat:1",),
)
def propose(
    terminal: Terminal,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="memory, experience or cognition.")],
    content: Annotated[str, typer.Argument(metavar="CONTENT", help="What to remember; - reads standard input.")],
    subject: Annotated[str, typer.Option("--subject", metavar="TEXT", help="What it is about.")] = "",
    object_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="An id of your own.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Whose memory it is.")] = None,
    risk: Annotated[str, typer.Option("--risk", metavar="RISK", help="low, medium or high.")] = "medium",
    pieces: Pieces = None,
    rests_on: Annotated[
        list[str] | None, typer.Option("--rests-on", metavar="REF", help="memory:mem_ab12 …; repeatable.")
    ] = None,
    owner: Owner = None,
    reason: Reason = "",
) -> None:
    """Propose something to remember; a worker verifies it at once."""
    text = sys.stdin.read() if content == "-" else content
    with reached(terminal, may_create=True) as here:
        made = here.objects.propose(
            cast("Any", kind), text, id=object_id, subject=subject, agent=agent, risk=cast("Any", risk),
            evidence=pieces or [], rests_on=rests_on or [], reason=reason, owner=owner,
        )  # fmt: skip
        now = here.now()
    terminal.result(to_json(made), ("already there: " if made.deduplicated else "") + line_about(made, now))


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    kind: Kind = None,
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="candidate, active, stale …")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only this agent's.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", metavar="TEXT", help="Only about this.")] = None,
    risk: Annotated[str | None, typer.Option("--risk", metavar="RISK", help="low, medium or high.")] = None,
    contested: Annotated[bool, typer.Option("--contested", help="Only what is contested.")] = False,
    stalled: Annotated[bool, typer.Option("--stalled", help="Only what no verifier could check.")] = False,
    due: Annotated[bool, typer.Option("--due", help="Only what comes due for something, the next ones first.")] = False,
    owner: Owner = None,
    limit: LIMIT = 50,
) -> None:
    """List objects, newest first."""
    with reached(terminal) as here:
        found = tuple(
            here.objects.list(
                kind=cast("Any", kind), status=status, agent=agent, subject=subject, risk=cast("Any", risk),
                contested=contested or None, stalled=stalled or None, order="due" if due else "newest", owner=owner,
                limit=limit,
            )
        )  # fmt: skip
        now = here.now()
    headers = ("KIND", "ID", "STATUS", "RISK", "SUBJECT", "NEXT", "DUE")
    text = terminal.table(headers, [_row(each, now) for each in found]) if found else "No objects."
    terminal.result(as_list(found), text)


def _row(it: GovernedObject, now: datetime) -> tuple[str, ...]:
    state = it.status if it.epistemic_state is None else f"{it.status}/{it.epistemic_state}"
    due = "" if it.next_action_at is None else words.relative(it.next_action_at, now)
    flag = "!" if it.contested or it.stalled else ""
    return (it.kind, it.id, state + flag, it.risk, words.first_line(it.subject, 30), it.next_action or "-", due)


@command(group, "show", by_url=True)
def show(terminal: Terminal, object_id: Id, kind: Kind = None, owner: Owner = None) -> None:
    """Show an object with its content and whether it may be used."""
    with reached(terminal) as here:
        found = here.objects.get(object_id, kind=cast("Any", kind), owner=owner)
        now = here.now()
    terminal.result(to_json(found), _words_of(found, now))


def _words_of(it: RecalledObject, now: datetime) -> str:
    lines = [
        line_about(it, now),
        f"subject   {it.subject or '-'}",
        f"content   {'(erased)' if it.content is None else words.first_line(it.content, 200)}",
        f"usable    {it.usable}: {it.why.replace('_', ' ')}",
        f"verified  {words.both(it.verified_at, now) or 'never'}",
        f"evidence  {words.count(it.evidence, 'piece')}",
    ]
    if it.rests_on:
        lines.append(f"rests on  {', '.join(it.rests_on)}")
    return "\n".join(lines)


@command(group, "recall", by_url=True, examples=("horae object recall Ann --strict",))
def recall(
    terminal: Terminal,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="What to remember about.")],
    strict: Annotated[bool, typer.Option("--strict", help="Leave out what needs caution.")] = False,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only this agent's.")] = None,
    owner: Owner = None,
    limit: LIMIT = 50,
) -> None:
    """Show what is remembered about a subject, the most usable first.

    Nothing is written: recalling a memory does not make it last.
    """
    with reached(terminal) as here:
        found = here.objects.recall(subject, strict=strict, agent=agent, limit=limit, owner=owner)
    rows = [(it.usable, it.why.replace("_", " "), it.id, words.first_line(it.content, 80)) for it in found]
    text = terminal.table(("USABLE", "WHY", "ID", "CONTENT"), rows) if rows else "Nothing is remembered about that."
    terminal.result(as_list(found), text)


@command(group, "why", by_url=True)
def why(terminal: Terminal, object_id: Id, kind: Kind = None, owner: Owner = None) -> None:
    """Say why an object stands as it does."""
    with reached(terminal) as here:
        found = here.objects.why(object_id, kind=cast("Any", kind), owner=owner)
        now = here.now()
    lines = [line_about(found.object, now), f"usable    {found.usable}: {found.why.replace('_', ' ')}"]
    lines.append(f"rule      {found.rule or 'none: it rests'} (policy version {found.policy})")
    lines += [f"waits     {each.in_words(terminal.language)}" for each in found.waits]
    if found.last is not None:
        lines.append(f"last      {found.last.verb} by {found.last.actor} {words.both(found.last.at, now)}")
        lines += _verdict(found.last.after)
    lines += [f"evidence  {each.kind}: {each.reference}" for each in found.evidence]
    if not found.evidence and found.object.next_action == "verify":
        lines.append(
            f"evidence  none; the built-in verifier confirms nothing without: horae object evidence {object_id} REF"
        )
    terminal.result(to_json(found), "\n".join(lines))


def _verdict(facts: dict[str, Any]) -> list[str]:
    return [f"verdict   {facts['verdict']}, by the verifier {facts.get('verifier', '-')}"] if "verdict" in facts else []


@command(group, "history", by_url=True)
def history(terminal: Terminal, object_id: Id, kind: Kind = None, owner: Owner = None, limit: LIMIT = 50) -> None:
    """Show what the audit says about an object, newest first."""
    with reached(terminal) as here:
        found = tuple(here.objects.history(object_id, kind=cast("Any", kind), owner=owner, limit=limit))
    rows = [
        (words.exact(each.at), each.verb, _state(each.before), _state(each.after), each.actor, each.reason or "")
        for each in found
    ]
    terminal.result(as_list(found), terminal.table(("AT", "WHAT", "BEFORE", "AFTER", "BY", "WHY"), rows))


def _state(facts: dict[str, Any]) -> str:
    status, epistemic = facts.get("status"), facts.get("epistemic_state")
    return "-" if status is None else f"{status}/{epistemic}" if epistemic else str(status)


@command(group, "links", by_url=True)
def links(terminal: Terminal, object_id: Id, kind: Kind = None, owner: Owner = None, limit: LIMIT = 50) -> None:
    """Show what an object rests on, and what rests on it.

    Also what was decided on it.
    """
    with reached(terminal) as here:
        found = here.objects.links(object_id, kind=cast("Any", kind), owner=owner, limit=limit)
    rows = [("rests on", f"{it.kind}:{it.id}", it.status) for it in found.rests_on]
    rows += [("carries", f"{it.kind}:{it.id}", it.status) for it in found.carries]
    rows += [("cited by", f"decision:{it.id}", it.outcome) for it in found.decisions]
    text = terminal.table(("LINK", "WHAT", "STATUS"), rows) if rows else "Nothing is linked with it."
    terminal.result(to_json(found), text)


@command(group, "versions", by_url=True)
def versions(terminal: Terminal, object_id: Id, kind: Kind = None, owner: Owner = None, limit: LIMIT = 50) -> None:
    """Show an object after each change, newest first."""
    with reached(terminal) as here:
        found = tuple(here.objects.versions(object_id, kind=cast("Any", kind), owner=owner, limit=limit))
    rows = [
        (str(each.version), words.exact(each.at), each.verb, each.status, words.first_line(each.content, 60) or "-")
        for each in found
    ]
    terminal.result(as_list(found), terminal.table(("VERSION", "AT", "WHAT", "STATUS", "CONTENT"), rows))


@command(group, "forecast", by_url=True, examples=("horae object forecast mem_ab12 --assume confirmed",))
def forecast(
    terminal: Terminal,
    object_id: Id,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="A year ahead, unless given.")] = None,
    assume: Annotated[
        str,
        typer.Option("--assume", metavar="VERDICT", help="Each look finds none, confirmed, inconclusive, refuted."),
    ] = "none",
    kind: Kind = None,
    owner: Owner = None,
) -> None:
    """Say what becomes of an object if nothing new arrives."""
    end = None if until is None else instant_from(until)
    with reached(terminal) as here:
        steps = here.objects.forecast(
            object_id, until=end, assume=cast("Any", assume), kind=cast("Any", kind), owner=owner
        )
        now = here.now()
    rows = [
        (words.exact(each.at), words.relative(each.at, now), each.action, ", ".join(each.events) or "-", each.status)
        for each in steps
    ]
    text = terminal.table(("AT", "", "ACTION", "EVENTS", "STATUS"), rows) if rows else "Nothing comes due."
    terminal.result(as_list(steps), text)


@command(
    group,
    "export",
    by_url=True,
    examples=("horae object export objects.jsonl --owner alice",),
)
def export(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where it goes; - is stdout.")],
    owner: Owner = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write objects to a file, with links, evidence and versions.

    Lines of JSON, all as of one moment: a header, each object, its evidence and its versions, and an end. What was
    erased is not in it.
    """
    counts: dict[str, int] = {}
    with reached(terminal) as here, open_lines(file, force=force) as write:
        for line in here.objects.export(owner=owner):
            write(line)
            if "end" in line:
                counts = {name: count for name, count in line.items() if name != "end"}
    if file == STDOUT:
        return
    counted = f"{words.count(counts['objects'], 'object')}, {words.count(counts['evidence'], 'piece')} of evidence"
    counted += f" and {words.count(counts['versions'], 'version')}"
    terminal.result({"export": {"file": str(file), **counts}}, f"{file}: {counted}")


object_verbs.register(group)


@command(group, "rollback", by_url=True, examples=("horae object rollback mem_ab12 --dry-run",))
def rollback(
    terminal: Terminal,
    object_id: Annotated[str, typer.Argument(metavar="ID", help="The memory, suspected or found forged.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be taken back.")] = False,
    owner: Owner = None,
    reason: Reason = "",
    version: Version = None,
) -> None:
    """Reject a memory as forged, and take back all that rests on it.

    Only a person may, and not the actor who proposed it. More than 500 objects and decisions are taken back by a job.
    """
    with reached(terminal) as here:
        done = here.objects.rollback(
            object_id, dry_run=dry_run, reason=reason, expected_version=version, owner=owner
        )  # fmt: skip
    if done.state == "dry_run":
        text = f"{done.found:,} objects and decisions would be taken back"
        text += "".join(f"\n  {each}" for each in done.first)
    elif done.state == "open":
        text = f"{done.id} goes on in a job: {done.found} found so far"
    else:
        text = f"{done.id} is done: {done.found} found, {done.moved} taken back, {done.final} needed nothing"
    terminal.result(to_json(done), text)


@command(group, "erase", by_url=True, examples=("horae object erase --subject 'c-17' --reason 'asked for it'",))
def erase(
    terminal: Terminal,
    object_id: Annotated[str | None, typer.Argument(metavar="ID", help="One object; or give --subject.")] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="TEXT", help="Everything about this subject.")
    ] = None,
    owner: Owner = None,
    reason: Reason = "",
) -> None:
    """Erase an object, or all about a subject, wherever repeated.

    Ids, states and times stay, and every chain of the audit and of journals still holds.
    """
    with reached(terminal) as here:
        done = here.objects.erase(object_id, subject=subject, reason=reason, owner=owner)
    text = f"{words.count(done.objects, 'object')}, {words.count(done.jobs, 'job')}, "
    text += f"{words.count(done.attention, 'row')} of attention and "
    text += f"{words.count(done.conversations, 'conversation')} erased"
    if done.unreadable:
        text += f"; {words.count(done.unreadable, 'thread')} of encrypted checkpoints could not be searched"
    terminal.result(to_json(done), text + ("; there are more, repeat the command" if done.more else ""))
