"""``horae schedule``: make, see, explain and steer schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.arguments import arguments_from, instant_from, until_from
from horae.cli.failures import Exit
from horae.cli.jobs.bulk import Reason, Until
from horae.cli.schedules import explain as explaining
from horae.cli.schedules.explain import Count, clock, fire_lines
from horae.cli.schedules.options import values_from, with_options, zone_of
from horae.cli.schedules.tables import fire_table, schedule_page, schedule_table, timetable_page
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.time.spans import span_from
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from horae.api.schedules.values import Schedule
    from horae.cli.verbs import Verbs

group = typer.Typer(help="Make, see, explain and steer schedules.", no_args_is_help=True, rich_markup_mode=None)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The schedule, as `horae schedule list` shows it.")]
KeyOrGroup = Annotated[str | None, typer.Argument(metavar="KEY", help="The schedule; or give --group.")]
Owner = Annotated[str, typer.Option("--owner", metavar="NAME", help="Whose schedule it is.")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="All schedules of this group.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many.")]
Cursor = Annotated[str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the page before ended.")]
LAST_FIRES = 5


# -- see ---------------------------------------------------------------------------------------------------------


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    group: Annotated[str | None, typer.Option("--group", metavar="NAME", help="Only of this group.")] = None,
    handler: Annotated[str | None, typer.Option("--handler", metavar="NAME", help="Only of this handler.")] = None,
    owner: Owner = "system",
    results: Annotated[
        int, typer.Option("--results", min=0, max=20, metavar="N", help="Also the last N results of each.")
    ] = 0,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> None:
    """List schedules by key, each with its next fire.

    In UTC, in its own zone, and in words. Results stand the oldest first: + succeeded, ! did not, . was skipped or put
    off.
    """
    with reached(terminal) as here:
        listing = here.schedules.list(owner=owner, group=group, handler=handler, results=results)
        page = listing.page(cursor, limit=limit)
        now = here.now()
    nothing = "No such schedules." if group or handler or cursor or owner != "system" else "No schedules yet."
    terminal.result(
        to_json(page), schedule_table(terminal, page.items, now, results=results > 0) if page.items else nothing
    )
    terminal.mention_more(page.next_cursor)


@command(group, "show", by_url=True)
def show(terminal: Terminal, key: Key, owner: Owner = "system") -> None:
    """Show everything about a schedule.

    When it fires next or why it does not, each value with its source, its last fires and results, and who changed it.
    """
    with reached(terminal) as here, here.moment():
        schedule = here.schedules.get(key, owner=owner)
        fires = here.schedules.history(key, owner=owner).page(limit=LAST_FIRES).items
        changes = here.schedules.versions(key, owner=owner, limit=LAST_FIRES)
        now = here.now()
    document = to_json({"schedule": schedule, "history": fires, "versions": changes})
    terminal.result(document, schedule_page(terminal, schedule, fires, changes, now))


@command(group, "history", by_url=True)
def history(
    terminal: Terminal, key: Key, limit: Limit = 20, cursor: Cursor = None, owner: Owner = "system"
) -> None:  # fmt: skip
    """List what became of each due fire, newest first.

    It ran as a job, was skipped for a reason, or was merged into a later one.
    """
    with reached(terminal) as here, here.moment():
        schedule = here.schedules.get(key, owner=owner)
        page = here.schedules.history(key, owner=owner).page(cursor, limit=limit)
    text = fire_table(terminal, schedule, page.items) if page.items else "It has not fired yet."
    terminal.result(to_json(page), text)
    terminal.mention_more(page.next_cursor)


@command(group, "preview", by_url=True)
def preview(terminal: Terminal, key: Key, count: Count = 10, owner: Owner = "system") -> None:
    """Show the next fires of a schedule, and say it in words.

    One that is paused or disabled is shown as if it were not.
    """
    with reached(terminal) as here:
        schedule = here.schedules.get(key, owner=owner)
        ahead = here.schedules.preview(key, count=count, owner=owner)
        now = here.now()
    lines = [terminal.bold(schedule.words), *(fire_lines(ahead.fires, schedule.zone, now) or ["  no fire"])]
    terminal.result(
        to_json(ahead), "\n".join([*lines, *(f"  {reason.in_words(terminal.language)}" for reason in schedule.why)])
    )
    counts_from_end = schedule.kind == "every" and schedule.anchor == "finish"
    if counts_from_end and ahead.fires and not terminal.is_json:
        terminal.say("It counts from the end of each job; shown here as if jobs took no time.")


@command(group, "timetable", by_url=True, examples=("horae schedule timetable --days 3 --zone Europe/Berlin",))
def timetable(
    terminal: Terminal,
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=31, help="How far ahead.")] = 14,
    past: Annotated[int, typer.Option("--past", metavar="N", min=0, max=31, help="How far back.")] = 0,
    zone: Annotated[str, typer.Option("--zone", metavar="ZONE", help="Whose hours, such as Europe/Berlin.")] = "UTC",
    hour: Annotated[
        str | None, typer.Option("--hour", metavar="INSTANT", help="List the schedules of this hour too.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this owner's.")] = None,
) -> None:
    """Count the fires of all schedules by hour.

    Also name the minutes in which many come together.
    """
    chosen = None if hour is None else instant_from(hour)
    with reached(terminal) as here:
        found = here.schedules.timetable(days=days, past=past, zone=zone, hour=chosen, owner=owner)
    terminal.result(to_json(found), timetable_page(terminal, found))
    if not (found.complete and found.past_complete) and not terminal.is_json:
        reach = f"from {words.exact(found.since)} to {words.exact(found.until)}"
        terminal.say(f"There is more than is counted at once; this reaches {reach}.")


# -- make and change ---------------------------------------------------------------------------------------------


@command(
    group,
    "add",
    by_url=True,
    examples=(
        "horae schedule add pulse --handler sync --every 15m",
        'horae schedule add digest --handler send --cron "0 9 * * 1-5"',
    ),
)
@with_options
def add(
    terminal: Terminal,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The name of the new schedule.")],
    handler: Annotated[str, typer.Option("--handler", metavar="NAME", help="The job that it runs.")],
    given: dict[str, Any],
    disabled: Annotated[bool, typer.Option("--disabled", help="Store it, and do not fire yet.")] = False,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Store a new schedule.

    Give exactly one of --cron, --every, --once and --after. It fires from now on, as soon as a worker or a server runs.
    """
    timing = values_from(given, given["zone"], required=True)
    if disabled:
        timing["enabled"] = False
    with reached(terminal, may_create=True) as here:
        made = here.schedules.create(key, handler=handler, owner=owner, reason=reason, **timing)
        _print_schedule(terminal, here, made, "added")


@command(group, "change", by_url=True)
@with_options
def change(
    terminal: Terminal,
    key: Key,
    given: dict[str, Any],
    handler: Annotated[str | None, typer.Option("--handler", metavar="NAME", help="The job that it runs.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled", help="Whether it fires at all.")] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="Only if this is still its version; else exit code 5.")
    ] = None,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Change the given options and keep the rest.

    The next fire is recomputed; the previous values stay in the audit.
    """
    with reached(terminal) as here:
        before = here.schedules.get(key, owner=owner)
        timing = values_from(given, zone_of(given["zone"], before), required=False)
        timing |= {name: value for name, value in (("handler", handler), ("enabled", enabled)) if value is not None}
        if not timing:
            raise InvalidInput("nothing_to_change")
        changed = here.schedules.change(key, version=version, owner=owner, reason=reason, **timing)
        _print_schedule(terminal, here, changed, "changed")


@command(group, "pause", by_url=True)
def pause(
    terminal: Terminal,
    key: KeyOrGroup = None,
    group: Group = None,
    until: Until = None,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Stop firing until the schedule is resumed.

    With --until it goes on by itself then. Running jobs go on; it can still be triggered by hand.
    """
    _one_or_group(terminal, "pause", key, group, owner, reason, **until_from(until))


@command(group, "resume", by_url=True)
def resume(
    terminal: Terminal, key: KeyOrGroup = None, group: Group = None, owner: Owner = "system", reason: Reason = ""
) -> None:
    """Let a paused schedule fire again, from now on.

    What it missed while it was paused is not made up for; backfill does that. One that fires once, and whose instant
    passed meanwhile, fires now.
    """
    _one_or_group(terminal, "resume", key, group, owner, reason)


def _one_or_group(
    terminal: Terminal, verb: str, key: str | None, group: str | None, owner: str, reason: str, **terms: Any
) -> None:
    if key is None and group is None:
        raise InvalidInput("schedule_unnamed")
    if key is not None and group is not None:
        raise InvalidInput("schedule_named_twice")
    done = f"{verb.removesuffix('e')}ed"
    with reached(terminal) as here:
        if key is not None:
            changed = getattr(here.schedules, verb)(key, owner=owner, reason=reason, **terms)
            _print_schedule(terminal, here, changed, done)
            return
        change = here.schedules.pause_group if verb == "pause" else here.schedules.resume_group
        result = change(str(group), owner=owner, reason=reason, **terms)
    text = f"{words.count(len(result.changed), 'schedule')} of group {group} {done}"
    terminal.result(to_json(result), "\n".join([text, *(f"  {each}" for each in result.changed)]))


@command(group, "delete", by_url=True)
def delete(
    terminal: Terminal,
    key: Key,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; without, nothing is deleted (exit code 7).")] = False,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Delete a schedule and the record of its fires.

    Jobs that it made live on; the audit keeps what it was.
    """
    with reached(terminal) as here:
        schedule = here.schedules.get(key, owner=owner)
        if yes:
            here.schedules.delete(key, owner=owner, reason=reason)
    text = f"{key} is deleted" if yes else f"would delete {key} ({schedule.words}); add --yes"
    terminal.result({"dry_run": not yes, "verb": "delete", "schedule": to_json(schedule)}, text)
    if not yes:
        raise typer.Exit(Exit.UNCONFIRMED)  # or a script would take it for done


# -- fire by hand ------------------------------------------------------------------------------------------------


@command(group, "trigger", by_url=True)
def trigger(
    terminal: Terminal,
    key: Key,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="K=V", help="One argument; V is JSON, or else text. Repeat it.")
    ] = None,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="Arguments as one JSON object; they win over its own.")
    ] = None,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Run a schedule now, enabled or not.

    Its rhythm stays as it is. When a job of it is unfinished and its overlap forbids another, it is skipped: exit
    code 5.
    """
    parameters = arguments_from(arg or [], args, None)
    with reached(terminal) as here:
        done = here.schedules.trigger(key, parameters or None, owner=owner, reason=reason)
        overlap = "" if done.triggered else here.schedules.get(key, owner=owner).overlap
    skipped = f"skipped: a job of {key} is unfinished, and its overlap is {overlap}"
    terminal.result(to_json(done), done.job_id or skipped)
    if not done.triggered:
        raise typer.Exit(Exit.CONFLICT)


@command(group, "backfill", by_url=True)
def backfill(
    terminal: Terminal,
    key: Key,
    start: Annotated[str, typer.Option("--from", metavar="INSTANT", help="The first instant, such as 2030-01-07.")],
    end: Annotated[str, typer.Option("--to", metavar="INSTANT", help="The last instant, included.")],
    spread: Annotated[str, typer.Option("--spread", metavar="SPAN", help="Spread the jobs over so much time.")] = "0",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; without, it only counts (exit code 7).")] = False,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Make up for fires that never became a job.

    Times without an offset are read in the zone of the schedule. Without --yes it only says how many.
    """
    from horae.core.time.readings import instant_from

    with reached(terminal) as here:
        schedule = here.schedules.get(key, owner=owner)
        bounds = (instant_from(start, schedule.zone, "--from"), instant_from(end, schedule.zone, "--to"))
        over = span_from(spread, "span")
        done = here.schedules.backfill(key, *bounds, spread=over, dry_run=not yes, owner=owner, reason=reason)
    number = words.count(done.missing, "job")
    text = f"enqueued {number}" if yes else f"would enqueue {number}" + ("; add --yes" if done.missing else "")
    if done.present:
        text += f" ({words.count(done.present, 'fire')} of the range became a job already)"
    terminal.result(to_json(done), text)
    if done.missing and not yes:
        raise typer.Exit(Exit.UNCONFIRMED)


def _print_schedule(terminal: Terminal, here: Verbs, schedule: Schedule, done: str) -> None:
    """Print what a schedule is now."""
    now = here.now()
    lines = [f"{schedule.key} {done}: {schedule.words}, version {schedule.version}"]
    if schedule.next_fire_at is not None:
        zone = "" if schedule.zone == "UTC" else f", {clock(schedule.next_fire_at, schedule.zone)}"
        lines.append(f"  next fire {words.both(schedule.next_fire_at, now)}{zone}")
    if not terminal.is_json:
        found = here.schedules.get(schedule.key, owner=schedule.owner).why
        lines += [f"  {reason.in_words(terminal.language)}" for reason in found]
    terminal.result(to_json(schedule), "\n".join(lines))


explaining.register(group)
