"""``horae schedule``: make, see, explain and steer schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.values import to_json
from horae.cli import explaining, schedule_shapes, words
from horae.cli.acting import Reason
from horae.cli.arguments import arguments_from
from horae.cli.explaining import Count, clock, fire_lines
from horae.cli.failures import Exit
from horae.cli.schedule_options import values_from, with_options, zone_told
from horae.cli.schedule_showing import Page, fire_table, schedule_page, schedule_table
from horae.cli.shapes import moment
from horae.cli.terminal import Terminal, actor, command
from horae.cli.verbs import reached
from horae.errors import InvalidInput
from horae.settings import span_from

if TYPE_CHECKING:
    from horae.cli.verbs import Verbs
    from horae.core.fires import Schedule

group = typer.Typer(help="Make, see, explain and steer schedules.", no_args_is_help=True, rich_markup_mode=None)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The schedule, as `horae schedule list` shows it.")]
KeyOrGroup = Annotated[str | None, typer.Argument(metavar="KEY", help="The schedule; or give --group.")]
Owner = Annotated[str, typer.Option("--owner", metavar="NAME", help="Whose schedule it is.")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="All schedules of this group.")]
LAST_FIRES = 5
LISTED = 1000


# -- look --------------------------------------------------------------------------------------------------------


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    group: Annotated[str | None, typer.Option("--group", metavar="NAME", help="Only of this group.")] = None,
    handler: Annotated[str | None, typer.Option("--handler", metavar="NAME", help="Only of this handler.")] = None,
    owner: Owner = "system",
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many.")] = 100,
    after: Annotated[
        str | None, typer.Option("--after", metavar="KEY", help="Go on after the page that ended here.")
    ] = None,
) -> None:
    """Schedules by key, each with its next fire.

    In UTC, in its own zone, and in words.
    """
    from horae.ports import ScheduleFilter

    wanted = ScheduleFilter(owner=owner, group=group, handler=handler)
    with reached(terminal) as here:
        found = here.schedules.find(wanted, limit=limit, after=after)
        now = here.now()
    further = found[-1].key if len(found) == limit else None
    nothing = "No schedules yet." if wanted == ScheduleFilter(owner="system") and not after else "No such schedules."
    told = {"schedules": [schedule_shapes.schedule(each) for each in found], "next": further}
    terminal.result(told, schedule_table(terminal, found, now) if found else nothing)
    if further and not terminal.is_json:
        terminal.say(f"There may be more: --after {further}")


@command(group, "show", by_url=True)
def show(terminal: Terminal, key: Key, owner: Owner = "system") -> None:
    """All about one schedule.

    When it fires next or why it does not, each value with its source, its last fires and results, and who changed it.
    """
    from horae.core.standing import why_silent

    with reached(terminal) as here, here.moment():
        schedule = here.schedules.get(key, owner=owner)
        tally = here.schedules.tally(schedule)
        fires = here.schedules.history(key, owner=owner, limit=LAST_FIRES)
        changes = here.schedules.versions(key, owner=owner, limit=LAST_FIRES)
        now = here.now()
    why = why_silent(schedule, now)
    told = {
        "schedule": schedule_shapes.schedule(schedule),
        "why": to_json(why),
        "results": schedule_shapes.tally(tally),
        "fires": [schedule_shapes.fire(fire, job_id) for fire, job_id in fires],
        "changes": [schedule_shapes.entry(entry) for entry in changes],
    }
    terminal.result(told, schedule_page(terminal, Page(schedule, why, tally, fires, changes, now)))


@command(group, "history", by_url=True)
def history(
    terminal: Terminal,
    key: Key,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many.")] = 20,
    before: Annotated[
        str | None, typer.Option("--before", metavar="INSTANT", help="Go on after the page that ended here.")
    ] = None,
    owner: Owner = "system",
) -> None:
    """What became of each due fire, newest first.

    It ran as a job, was skipped for a reason, or was merged into a later one.
    """
    from horae.core.readings import instant_from

    with reached(terminal) as here, here.moment():
        schedule = here.schedules.get(key, owner=owner)
        until = None if before is None else instant_from(before, schedule.zone, "--before")
        fires = here.schedules.history(key, owner=owner, limit=limit, before=until)
    further = moment(fires[-1][0].fire_at) if len(fires) == limit else None
    told = {"fires": [schedule_shapes.fire(fire, job_id) for fire, job_id in fires], "next": further}
    terminal.result(told, fire_table(terminal, schedule, fires) if fires else "It has not fired yet.")
    if further and not terminal.is_json:
        terminal.say(f"There may be more: --before {further}")


@command(group, "preview", by_url=True)
def preview(terminal: Terminal, key: Key, count: Count = 10, owner: Owner = "system") -> None:
    """The next fires of a stored schedule, and in words.

    One that is paused or disabled is told as if it were not.
    """
    from horae.core.standing import why_silent

    with reached(terminal) as here:
        schedule = here.schedules.get(key, owner=owner)
        fires = here.schedules.preview(schedule, count)
        now = here.now()
    why = why_silent(schedule, now)
    told = {
        "key": key,
        "words": schedule.describe(),
        "zone": schedule.zone,
        "next": [schedule_shapes.fire_at(fire, schedule.zone) for fire in fires],
        "why": to_json(why),
    }
    lines = [terminal.bold(schedule.describe()), *(fire_lines(fires, schedule.zone, now) or ["  no fire"])]
    terminal.result(told, "\n".join([*lines, *(f"  {reason.text}" for reason in why)]))
    if schedule.rests and fires and not terminal.is_json:
        terminal.say("It counts from the end of each job; told here as if jobs took no time.")


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

    Give exactly one of --cron, --every, --once and --after. It fires from now on, as soon as a worker runs.
    """
    from horae.core.fires import Schedule

    zone = given["zone"]
    values = values_from(given, zone, required=True)
    sources = {} if zone is None else {"zone": "api"}
    schedule = Schedule(key=key, handler=handler, owner=owner, enabled=not disabled, sources=sources, **values)
    with reached(terminal, may_create=True) as here:
        made = here.schedules.create(schedule, actor=actor(terminal), reason=reason)
        _tell(terminal, here, made, "added")


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
    """Change what is named and keep the rest.

    The next fire is computed anew; what it was before stays in the audit.
    """
    with reached(terminal) as here:
        before = here.schedules.get(key, owner=owner)
        values = values_from(given, zone_told(given["zone"], before), required=False)
        values |= {name: value for name, value in (("handler", handler), ("enabled", enabled)) if value is not None}
        if not values:
            raise InvalidInput("Nothing to change was given; `horae schedule change --help` shows what can be.")
        told: dict[str, Any] = {"owner": owner, "version": version, "actor": actor(terminal), "reason": reason}
        _tell(terminal, here, here.schedules.change(key, values, **told), "changed")


@command(group, "pause", by_url=True)
def pause(
    terminal: Terminal, key: KeyOrGroup = None, group: Group = None, owner: Owner = "system", reason: Reason = ""
) -> None:
    """No more fires until it is resumed.

    Running jobs go on; it can still be triggered by hand.
    """
    _one_or_group(terminal, "pause", key, group, owner, reason)


@command(group, "resume", by_url=True)
def resume(
    terminal: Terminal, key: KeyOrGroup = None, group: Group = None, owner: Owner = "system", reason: Reason = ""
) -> None:
    """Let it fire again, from now on.

    What it missed while it was paused is not made up for; backfill does that. One that fires once, and whose instant
    passed meanwhile, fires now.
    """
    _one_or_group(terminal, "resume", key, group, owner, reason)


def _one_or_group(terminal: Terminal, verb: str, key: str | None, group: str | None, owner: str, reason: str) -> None:
    if (key is None) == (group is None):
        raise InvalidInput(f"Name one schedule or a --group; {'neither was given' if key is None else 'not both'}.")
    told = {"owner": owner, "actor": actor(terminal), "reason": reason}
    done = f"{verb.removesuffix('e')}ed"
    with reached(terminal) as here:
        if key is not None:
            _tell(terminal, here, getattr(here.schedules, verb)(key, **told), done)
            return
        changed: list[Schedule] = getattr(here.schedules, f"{verb}_group")(group, **told)
    said = f"{words.count(len(changed), 'schedule')} of group {group} {done}"
    lines = [said, *(f"  {each.key}" for each in changed)]
    terminal.result({"schedules": [schedule_shapes.schedule(each) for each in changed]}, "\n".join(lines))


@command(group, "delete", by_url=True)
def delete(
    terminal: Terminal,
    key: Key,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; without, nothing is deleted (exit code 7).")] = False,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Forget a schedule and the record of its fires.

    Jobs that it made live on; the audit keeps what it was.
    """
    from horae.core.standing import described

    with reached(terminal) as here:
        schedule = here.schedules.get(key, owner=owner)
        if yes:
            here.schedules.delete(key, owner=owner, actor=actor(terminal), reason=reason)
    said = f"{key} is deleted" if yes else f"would delete {key} ({described(schedule)}); add --yes"
    terminal.result({"dry_run": not yes, "verb": "delete", "schedule": schedule_shapes.schedule(schedule)}, said)
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
    """Run it now, enabled or not.

    Its rhythm stays as it is. When a job of it is unfinished and its overlap forbids another, it is skipped: exit
    code 5.
    """
    parameters = arguments_from(arg or [], args, None)
    with reached(terminal) as here:
        done = here.firing.trigger(key, parameters, owner=owner, actor=actor(terminal), reason=reason)
    told = {"job_id": done.job_id, "fire": schedule_shapes.fire(done.fire, done.job_id)}
    skipped = f"skipped: a job of {key} is unfinished, and its overlap is {done.schedule.overlap}"
    terminal.result(told, done.job_id or skipped)
    if not done.ran:
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
    from horae.core.readings import instant_from

    with reached(terminal) as here:
        schedule = here.schedules.get(key, owner=owner)
        bounds = (instant_from(start, schedule.zone, "--from"), instant_from(end, schedule.zone, "--to"))
        told: dict[str, Any] = {"owner": owner, "actor": actor(terminal), "reason": reason}
        over = span_from(spread, "span")
        done = here.firing.backfill(key, *bounds, dry_run=not yes, spread=over, **told)
    number = words.count(len(done.fires), "job")
    said = f"enqueued {number}" if yes else f"would enqueue {number}" + ("; add --yes" if done.fires else "")
    if done.present:
        said += f" ({words.count(done.present, 'fire')} of the range became a job already)"
    shape = {
        "dry_run": not yes,
        "count": len(done.fires),
        "present": done.present,
        "fires": [moment(fire) for fire in done.fires[:LISTED]],
        "job_ids": list(done.job_ids),
    }
    terminal.result(shape, said)
    if done.fires and not yes:
        raise typer.Exit(Exit.UNCONFIRMED)


def _tell(terminal: Terminal, here: Verbs, schedule: Schedule, done: str) -> None:
    """What a schedule is now."""
    from horae.core.standing import described, why_silent

    now = here.now()
    lines = [f"{schedule.key} {done}: {described(schedule)}, version {schedule.version}"]
    if schedule.next_fire_at is not None:
        zone = "" if schedule.zone == "UTC" else f", {clock(schedule.next_fire_at, schedule.zone)}"
        lines.append(f"  next fire {words.both(schedule.next_fire_at, now)}{zone}")
    lines += [f"  {reason.text}" for reason in why_silent(schedule, now)]
    terminal.result({"schedule": schedule_shapes.schedule(schedule)}, "\n".join(lines))


explaining.register(group)
