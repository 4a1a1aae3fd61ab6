"""``horae attention``: see what an agent attends to, tell it something, answer what it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.translations import translated
from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.arguments import arguments_from, instant_from
from horae.cli.attention import anchor, screen, serve, top
from horae.cli.failures import Exit
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.attention.task import NORMAL, reach
from horae.core.time.spans import span_from
from horae.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from horae.api.attention.values import PostedEvent
    from horae.cli.verbs import Verbs

group = typer.Typer(
    help="See what an agent attends to, tell it something, answer it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
MANY = 1000
serve.register(group)

LaneOf = Annotated[str | None, typer.Option("--lane", metavar="NAME", help="The agent's lane; else the only one.")]
OwnerOf = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Whose lane it is; else the operator's.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The task, such as t12.")]
Pairs = Annotated[
    list[str] | None, typer.Option("--arg", metavar="K=V", help="One value; V is JSON, or else text. Repeat it.")
]
Whole = Annotated[str | None, typer.Option("--args", metavar="JSON", help="All values as one JSON object.")]
Stdin = Annotated[str | None, typer.Argument(metavar="-", help="- reads the values from stdin.")]


def resolve_lane(here: Verbs, lane: str | None, owner: str | None) -> tuple[str, str | None]:
    """Return the lane that was named, or the only one there is; and its owner."""
    if lane is not None:
        return lane, owner
    found = list(here.attention.lanes(owner=owner, limit=MANY))
    if not found:
        raise NotFound("lane_missing")
    if len(found) > 1:
        names = words.first_line(", ".join(sorted({each.name for each in found})))
        raise InvalidInput("lane_ambiguous", count=len(found), names=names)
    return found[0].name, found[0].owner


@command(group, "lanes", by_url=True)
def lanes(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this owner's.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=MANY, help="How many.")] = 100,
) -> None:
    """List the lanes of all agents, each with its focus."""
    with reached(terminal) as here:
        found = here.attention.lanes(owner=owner, limit=limit)
        views = [here.attention.get(each.name, owner=each.owner) for each in found]
        now = here.now()
    headers = ("LANE", "OWNER", "FOCUS", "STACK", "BACKLOG", "WAITING", "LINES", "DRIVER")
    text = terminal.table(headers, [screen.lane_row(view, now) for view in views]) if views else "No lane yet."
    terminal.result(as_list(views), text)


@command(group, "show", by_url=True)
def show(
    terminal: Terminal,
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="One task, such as t12.")] = None,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Show a lane as it is now, or one of its tasks.

    FOCUS is what the agent is at, STACK what was interrupted (the first comes back first), BACKLOG what is ready in
    the order in which it would be served, WAITING what is waited for and how long still.
    """
    with reached(terminal) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        if task is not None:
            _show_task(terminal, here, name, owned_by, task)
            return
        view, now = here.attention.get(name, owner=owned_by), here.now()
    lines = screen.view_lines(translated(view, terminal.language), now)
    terminal.result(to_json(view), "\n".join([terminal.bold(screen.heading(view, now)), *lines]))


def _show_task(terminal: Terminal, here: Verbs, lane: str, owner: str | None, task_id: str) -> None:
    with here.moment():
        task = here.attention.task(lane, task_id, owner=owner)
        found = here.attention.waits(lane, owner=owner, limit=MANY) if task.state == "waiting" else ()
    waits = [each for each in found if each.task == task.id]
    document = to_json(task) | {"waits": to_json(waits)}
    terminal.result(document, screen.task_page(terminal, task, waits, here.now()))


@command(group, "story", by_url=True)
def story(
    terminal: Terminal,
    task: TaskId,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=MANY, help="Of each.")] = 20,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Show what a task waited for and was told, newest first."""
    with reached(terminal) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        found, now = here.attention.story(name, task, limit=limit, owner=owned_by), here.now()
    terminal.result(to_json(found), screen.story_page(terminal, found, now))


@command(group, "overview", by_url=True)
def overview(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this owner's.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=MANY, help="How many.")] = 100,
) -> None:
    """List lanes in numbers.

    Each with its focus, stack, backlog, waits, questions to answer, and the last step.
    """
    with reached(terminal) as here:
        found, now = list(here.attention.overview(owner=owner, limit=limit)), here.now()
    headers = ("LANE", "OWNER", "FOCUS", "STACK", "BACKLOG", "WAITS", "TO ANSWER", "LAST STEP")
    text = terminal.table(headers, [screen.summary_row(each, now) for each in found]) if found else "No lane yet."
    terminal.result(as_list(found), text)


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
    ] = NORMAL,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="The same key again is the same task.")
    ] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="SPAN", help="Not before 90s, 5m, 2h, 1d …")] = None,
    start_at: Annotated[str | None, typer.Option("--start-at", metavar="INSTANT", help="Not before then.")] = None,
    due_by: Annotated[
        str | None, typer.Option("--due-by", metavar="INSTANT", help="Deadline; the agent gets a fact when it passes.")
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", metavar="INSTANT", help="Cancelled if it has not begun by then.")
    ] = None,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Give an agent something to attend to.

    It is durable when this returns; the driver of the lane takes it up. A lane that is named and not there is made.
    """
    payload = arguments_from(arg or [], args, stdin)
    options: dict[str, Any] = {"priority": priority, "key": key}
    options["delay"] = None if delay is None else span_from(delay, "delay")
    for option, text in (("start_at", start_at), ("due_by", due_by), ("expires_at", expires_at)):
        options[option] = None if text is None else instant_from(text)
    with reached(terminal, may_create=lane is not None) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        made = here.attention.add(name, kind, payload, owner=owned_by, **options)
    what = "is the task of this key already" if made.deduplicated else "added"
    text = f"{made.id} {what}: {kind} in lane {name}, priority {made.priority}, {made.state}"
    terminal.result(to_json(made), text)


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
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="ONE|ALL", help="Wake one task that waits for it, or all; else its rule says it."),
    ] = None,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Tell an agent that something happened.

    Its rules decide what follows. Without a rule it wakes the task that waits for it, or is kept for one that will.
    """
    data = arguments_from(arg or [], args, stdin)
    with reached(terminal, may_create=lane is not None) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        wide = None if to is None else reach(to.lower())
        posted = here.attention.post(name, event, data, event_id=event_id, to=wide, owner=owned_by)
    terminal.result(to_json(posted), _event_text(posted))


def _event_text(event: PostedEvent) -> str:
    if event.deduplicated:
        return f"event {event.id} is known by this id already: {event.state}"
    to = f" by {event.task}" if event.task else ""
    states = {"pending": "kept for a task that will wait for it", "late": f"too late, reported to {event.task}"}
    why = f" ({event.reason})" if event.reason else ""
    return f"event {event.id}: {states.get(event.state, event.state + to)}{why}"


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
    with reached(terminal) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        ended = here.attention.cancel(name, task, reason=reason, graceful=graceful, owner=owned_by)
    asked = " and was asked to end" if ended.state == "running" else ""
    late = "; it had ended before" if ended.state in ("completed", "failed") else ""
    terminal.result(to_json(ended), f"{ended.id} is {ended.state}{asked}{late}")


@command(group, "confirm", by_url=True, examples=('horae attention confirm 12 --approve --reason "asked Ann"',))
def confirm(
    terminal: Terminal,
    wait: Annotated[int, typer.Argument(metavar="WAIT", min=1, max=2**63 - 1, help="The wait, as show tells it.")],
    approve: Annotated[
        bool | None, typer.Option("--approve/--deny", help="Yes: exactly that, once. No: the agent gets that answer.")
    ] = None,
    reason: Reason = "",
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Answer what an agent may not do without a person's word.

    After the deadline no answer authorises anything: silence has answered already.
    """
    if approve is None:
        raise InvalidInput("answer_missing")
    with reached(terminal) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        confirmed = here.attention.confirm(name, wait, approve, reason=reason, owner=owned_by)
    answer = "approved" if approve else "denied"
    terminal.result(to_json(confirmed), f"{screen.describe_intent(confirmed)}of {confirmed.task} is {answer}")


@command(group, "journal", by_url=True)
def journal(
    terminal: Terminal,
    since: Annotated[int, typer.Option("--since", metavar="LINE", min=0, help="Only after this line.")] = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=MANY, help="How many.")] = 100,
    task: Annotated[str | None, typer.Option("--task", metavar="TASK", help="Only of this task.")] = None,
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Print the journal of a lane, line by line."""
    with reached(terminal) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        page = here.attention.journal(name, since=since, task=task, owner=owned_by).page(limit=limit)
    text = screen.journal_table(terminal, page.items) if page.items else "No such lines."
    terminal.result(to_json(page), text)
    if page.next_cursor and not terminal.is_json:
        terminal.say(f"There may be more: --since {page.items[-1].seq}")


@command(group, "at", by_url=True)
def at(
    terminal: Terminal,
    line: Annotated[int, typer.Argument(metavar="LINE", min=1, max=2**63 - 1, help="A line of the journal.")],
    lane: LaneOf = None,
    owner: OwnerOf = None,
) -> None:
    """Show a lane as it was after a line of its journal."""
    from horae.api.attention.past import view_after

    with reached(terminal) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        past = here.attention.at(name, line, owner=owned_by)
        (entry,) = here.attention.journal(name, since=line - 1, limit=1, owner=owned_by)
    view = view_after(past, entry.at)
    who = f" {entry.task}" if entry.task else ""
    head = f"{name}  {words.exact(entry.at)}  after line {line}:{who} {entry.cause}"
    text = "\n".join([terminal.bold(head), *screen.view_lines(view, entry.at)])
    terminal.result({**to_json(view), **to_json(past)}, text)


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
    with reached(terminal) as here:
        every = [] if lane is not None else [(each.name, each.owner) for each in here.attention.lanes(owner=owner)]
        named = every if lane is None else [(lane, owner)]
        found = [here.attention.verify(name, owner=owned_by) for name, owned_by in named]
    lines = [line for each in found for line in (screen.verified_line(each), *_indent(each.complaints))]
    terminal.result(as_list(found), "\n".join(lines) or "No lane yet.")
    if not all(each.sound for each in found):
        raise typer.Exit(Exit.FINDINGS)


def _indent(complaints: tuple[str, ...]) -> list[str]:
    return [f"  {complaint}" for complaint in complaints]


anchor.register(group)


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
    with reached(terminal) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        top.watch(terminal, here, name, owned_by, once=once)
