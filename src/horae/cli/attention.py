"""``horae attention``: see what an agent attends to, tell it something, answer what it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.cli import attention_showing as showing
from horae.cli import top, words
from horae.cli.acting import Reason
from horae.cli.arguments import arguments_from, instant_from
from horae.cli.attention_verbs import lanes_reached
from horae.cli.failures import Exit
from horae.cli.terminal import Terminal, actor, command
from horae.core.instants import from_iso
from horae.errors import Conflict, InvalidInput, NotFound
from horae.settings import span_from

if TYPE_CHECKING:
    from horae.cli.attention_verbs import LaneVerbs

group = typer.Typer(
    help="See what an agent attends to, tell it something, answer it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
MANY = 1000

LaneOf = Annotated[str | None, typer.Option("--lane", metavar="NAME", help="The agent's lane; else the only one.")]
OwnerOf = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Whose lane it is; else the operator's.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The task, such as t12.")]
Pairs = Annotated[
    list[str] | None, typer.Option("--arg", metavar="K=V", help="One value; V is JSON, or else text. Repeat it.")
]
Whole = Annotated[str | None, typer.Option("--args", metavar="JSON", help="All values as one JSON object.")]
Stdin = Annotated[str | None, typer.Argument(metavar="-", help="- reads the values from stdin.")]


def meant(here: LaneVerbs, lane: str | None, owner: str | None) -> tuple[str, str | None]:
    """The lane that was named, or the only one there is; and its owner."""
    if lane is not None:
        return lane, owner
    found = here.lanes(owner, MANY)
    if not found:
        raise NotFound("There is no lane yet; an agent makes its own, or name one: --lane NAME")
    if len(found) > 1:
        names = words.first_line(", ".join(sorted({each["name"] for each in found})))
        raise InvalidInput(f"There are {words.count(len(found), 'lane')} ({names}); say which one with --lane NAME.")
    return found[0]["name"], found[0]["owner"]


@command(group, "lanes", by_url=True)
def lanes(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this owner's.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=MANY, help="How many.")] = 100,
) -> None:
    """Every agent's lane, with what it attends to now."""
    with lanes_reached(terminal) as here:
        views = [here.view(each["name"], each["owner"]) for each in here.lanes(owner, limit)]
        now = here.now()
    headers = ("LANE", "OWNER", "FOCUS", "STACK", "BACKLOG", "WAITING", "LINES", "DRIVER")
    text = terminal.table(headers, [showing.lane_row(view, now) for view in views]) if views else "No lane yet."
    terminal.result({"lanes": [view["lane"] | {"focus": view["focus"]} for view in views]}, text)


@command(group, "show", by_url=True)
def show(
    terminal: Terminal,
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="One task, such as t12.")] = None,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """One lane as it is now, or one of its tasks.

    FOCUS is what the agent is at, STACK what was interrupted (the first comes back first), BACKLOG what is ready in
    the order in which it would be served, WAITING what is waited for and how long still.
    """
    with lanes_reached(terminal) as here:
        name, whose = meant(here, lane, owner)
        if task is not None:
            told = here.task(name, whose, task)
            terminal.result({"task": told}, showing.task_page(terminal, told, here.now()))
            return
        view, now = here.view(name, whose), here.now()
    terminal.result(view, "\n".join([terminal.bold(showing.heading(view, now)), *showing.view_lines(view, now)]))


@command(
    group, "add", by_url=True, examples=("horae attention add report --lane main --arg topic=sales --priority 50",)
)
def add(
    terminal: Terminal,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Its kind, as declared with @agent.cognition(KIND).")],
    stdin: Stdin = None,
    arg: Pairs = None,
    args: Whole = None,
    priority: Annotated[
        int,
        typer.Option("--priority", metavar="N", min=0, max=99, help="0 to 99; 10 above the focus interrupts it."),
    ] = 40,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="The same key again is the same task.")
    ] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="SPAN", help="Not before 90s, 5m, 2h, 1d …")] = None,
    start_at: Annotated[str | None, typer.Option("--start-at", metavar="INSTANT", help="Not before then.")] = None,
    due_by: Annotated[
        str | None, typer.Option("--due-by", metavar="INSTANT", help="When the agent is told that its time is up.")
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", metavar="INSTANT", help="Cancelled if it has not begun by then.")
    ] = None,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Give an agent something to attend to.

    It is durable when this returns; whoever drives the lane takes it up. A lane that is named and not there is made.
    """
    payload = arguments_from(arg or [], args, stdin)
    options: dict[str, Any] = {"priority": priority, "key": key, "actor": actor(terminal)}
    options["delay"] = None if delay is None else span_from(delay, "delay")
    for option, text in (("start_at", start_at), ("due_by", due_by), ("expires_at", expires_at)):
        options[option] = None if text is None else instant_from(text)
    with lanes_reached(terminal, may_create=lane is not None) as here:
        name, whose = meant(here, lane, owner)
        made = here.add(name, whose, kind, payload, **options)
    task = made["task"]
    what = "is the task of this key already" if made["created"] is False else "added"
    terminal.result(made, f"{task['id']} {what}: {kind} in lane {name}, priority {task['priority']}, {task['state']}")


@command(group, "post", by_url=True)
def post(
    terminal: Terminal,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="What happened, such as db.down or ack:db-1.")],
    stdin: Stdin = None,
    arg: Pairs = None,
    args: Whole = None,
    event_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The same id again is the same event.")
    ] = None,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Tell an agent that something happened.

    Its rules decide what follows. Without a rule it wakes whoever waits for it, or is kept for whoever will.
    """
    data = arguments_from(arg or [], args, stdin)
    with lanes_reached(terminal, may_create=lane is not None) as here:
        name, whose = meant(here, lane, owner)
        posted = here.post(name, whose, event, data, event_id=event_id, actor=actor(terminal))
    terminal.result(posted, _became(posted))


def _became(posted: showing.Shape) -> str:
    event = posted["event"]
    if posted["is_new"] is False:
        return f"event {event['id']} is known by this id already: {event['state']}"
    to = f" by {event['task']}" if event["task"] else ""
    became = {"pending": "kept for whoever will wait for it", "late": f"too late, told to {event['task']}"}
    why = f" ({event['reason']})" if event["reason"] else ""
    return f"event {event['id']}: {became.get(event['state'], event['state'] + to)}{why}"


@command(group, "cancel", by_url=True)
def cancel(
    terminal: Terminal,
    task: TaskId,
    graceful: Annotated[bool, typer.Option("--graceful", help="Let the focus clean up, in a few steps.")] = False,
    reason: Reason = "",
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """End a task; the one in focus ends at its next safe point."""
    with lanes_reached(terminal) as here:
        name, whose = meant(here, lane, owner)
        told = here.cancel(name, whose, task, reason=reason, graceful=graceful, actor=actor(terminal))
    asked = " and was asked to end" if told["state"] == "running" else ""
    late = "; it had ended before" if told["state"] in ("completed", "failed") else ""
    terminal.result({"task": told}, f"{told['id']} is {told['state']}{asked}{late}")


@command(group, "confirm", by_url=True, examples=('horae attention confirm 12 --approve --reason "asked Ann"',))
def confirm(
    terminal: Terminal,
    wait: Annotated[int, typer.Argument(metavar="WAIT", min=1, max=2**63 - 1, help="The wait, as show tells it.")],
    approve: Annotated[
        bool | None, typer.Option("--approve/--deny", help="Yes: exactly that, once. No: the agent is told so.")
    ] = None,
    reason: Reason = "",
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Answer what an agent may not do without a person's word.

    After the deadline no answer authorises anything: silence has answered already.
    """
    if approve is None:
        raise InvalidInput("Say --approve or --deny; saying nothing lets it time out.")
    with lanes_reached(terminal) as here:
        name, whose = meant(here, lane, owner)
        told = here.confirm(name, whose, wait, approve, reason=reason, actor=actor(terminal))
    if told["state"] == "timeout":
        raise Conflict(f"Nobody answered confirmation {wait} by {told['deadline']}, so it has timed out.")
    if told["approved"] is None:
        raise Conflict(f"Confirmation {wait} is no longer needed: its task does not wait for it any more.")
    if told["approved"] is not approve:
        said = "approved" if told["approved"] else "denied"
        raise Conflict(f"Confirmation {wait} has already been {said} by {told['decided_by']}.")
    answer = "approved" if approve else "denied"
    terminal.result({"wait": told}, f"{showing.intended(told)}of {told['task']} is {answer}")


@command(group, "journal", by_url=True)
def journal(
    terminal: Terminal,
    since: Annotated[int, typer.Option("--since", metavar="LINE", min=0, help="Only after this line.")] = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=MANY, help="How many.")] = 100,
    task: Annotated[str | None, typer.Option("--task", metavar="TASK", help="Only of this task.")] = None,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """What happened, line by line."""
    with lanes_reached(terminal) as here:
        name, whose = meant(here, lane, owner)
        found = here.journal(name, whose, since=since, limit=limit, task_id=task)
    further = found[-1]["seq"] if len(found) == limit else None
    text = showing.journal_table(terminal, found) if found else "No such lines."
    terminal.result({"lines": found, "next_since": further}, text)
    if further and not terminal.is_json:
        terminal.say(f"There may be more: --since {further}")


@command(group, "at", by_url=True)
def at(
    terminal: Terminal,
    line: Annotated[int, typer.Argument(metavar="LINE", min=1, max=2**63 - 1, help="A line of the journal.")],
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """The lane as it was after a line of its journal."""
    with lanes_reached(terminal) as here:
        name, whose = meant(here, lane, owner)
        tables = here.at(name, whose, line)
        (told,) = here.journal(name, whose, since=line - 1, limit=1, task_id=None)
    then = from_iso(told["at"])
    view = showing.view_after(tables, line, then)
    who = f" {told['task']}" if told["task"] else ""
    head = f"{name}  {words.exact(then)}  after line {line}:{who} {told['cause']}"
    terminal.result({**view, "tables": tables}, "\n".join([terminal.bold(head), *showing.view_lines(view, then)]))


@command(group, "verify", by_url=True)
def verify(
    terminal: Terminal,
    lane: Annotated[str | None, typer.Option("--lane", metavar="NAME", help="Only this lane.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this owner's.")] = None,
) -> None:
    """Check journals against their hashes and the tables.

    Every lane, or the one that is named: no line is missing, none was changed, and folding them gives the tables. A
    complaint is exit code 6.
    """
    with lanes_reached(terminal) as here:
        named = [(each["name"], each["owner"]) for each in here.lanes(owner, None)] if lane is None else [(lane, owner)]
        found = [here.verify(*each) for each in named]
    lines = [line for each in found for line in (showing.verified_line(each), *_indented(each["complaints"]))]
    terminal.result({"lanes": found}, "\n".join(lines) or "No lane yet.")
    if not all(each["sound"] for each in found):
        raise typer.Exit(Exit.FINDINGS)


def _indented(complaints: list[str]) -> list[str]:
    return [f"  {complaint}" for complaint in complaints]


@command(group, "top", by_url=True)
def top_(
    terminal: Terminal,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Watch a lane live; q or Ctrl-C ends it.

    With --json it is one document for each change and line.
    """
    with lanes_reached(terminal) as here:
        name, whose = meant(here, lane, owner)
        top.watch(terminal, here, name, whose, once=once)
