"""``horae job``: enqueue, look, and act by hand."""
# size: one command for each verb on a job

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from horae.api.values import drop_none, to_json
from horae.cli import words
from horae.cli.arguments import arguments_from, instant_from, priority_from
from horae.cli.failures import Exit
from horae.cli.jobs import follow, rerun
from horae.cli.jobs.bulk import DryRun, Reason, Timeout, Where, act_on
from horae.cli.jobs.tables import job_page, job_table
from horae.cli.terminal import Terminal, actor, command, redact_url
from horae.cli.verbs import reached
from horae.core.cursors import last_number
from horae.core.jobs.gathered_jobs import Collect, Debounce
from horae.core.time.spans import span_from
from horae.errors import InvalidInput, NotAllowed

if TYPE_CHECKING:
    from horae.actions.jobs.requests import Request
    from horae.api.jobs.room import Job
    from horae.cli.verbs import Verbs
    from horae.core.jobs.job import State

group = typer.Typer(help="Enqueue jobs, look at them, act on them.", no_args_is_help=True, rich_markup_mode=None)

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job, such as job_12.")]
JobIds = Annotated[list[str] | None, typer.Argument(metavar="ID", help="The jobs, such as job_12.")]
QueueOf = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only of this queue.")]
HandlerOf = Annotated[str | None, typer.Option("--handler", metavar="NAME", help="Only of this handler.")]
TagOf = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Only with this tag.")]
OwnerOf = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only of this owner.")]


@command(
    group,
    "enqueue",
    by_url=True,
    examples=(
        "horae job enqueue welcome --app shop:app --arg name=Ada",
        'horae job enqueue welcome --args \'{"name": "Ada"}\' --queue mail --delay 5m',
    ),
)
def enqueue(
    terminal: Terminal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job to run, as declared with @app.job(NAME).")],
    stdin: Annotated[str | None, typer.Argument(metavar="-", help="- reads the arguments from stdin.")] = None,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="K=V", help="One argument; V is JSON, or else text. Repeat it.")
    ] = None,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="All arguments as one JSON object.")
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(
            "--app", metavar="MODULE:APP", help="Check the arguments, and take queue and retry, from this app."
        ),
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="The queue.")] = None,
    priority: Annotated[str | None, typer.Option("--priority", metavar="BAND", help="high, medium or low.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="SPAN", help="Due after 90s, 5m, 2h, 1d …")] = None,
    run_at: Annotated[
        str | None, typer.Option("--run-at", metavar="INSTANT", help="Due at 2030-01-07T06:00:00Z or with an offset.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="The same key and request again is the same job.")
    ] = None,
    unique: Annotated[
        str | None, typer.Option("--unique", metavar="NAME", help="Only one live job may have this name.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag to find it by. Repeat it.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Whose job it is.")] = None,
    after: Annotated[
        list[str] | None, typer.Option("--after", metavar="ID", help="A job that must succeed first. Repeat it.")
    ] = None,
    on_parent_dead: Annotated[
        str | None,
        typer.Option("--on-parent-dead", metavar="POLICY", help="If one of those dies: cancel (default), run or wait."),
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option("--max-attempts", metavar="N", min=1, help="How often it is tried at most.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="NAME", help="Draw on this budget: llm, or llm/agent.")
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option("--cost", metavar="UNIT=N", help="Reserve so many calls, tokens or micros. Repeat it."),
    ] = None,
    debounce: Annotated[
        str | None,
        typer.Option("--debounce", metavar="SPAN", help="Run only the last call, once none came for so long."),
    ] = None,
    max_wait: Annotated[
        str | None, typer.Option("--max-wait", metavar="SPAN", help="Debounce at most so long after the first call.")
    ] = None,
    collect: Annotated[
        int | None, typer.Option("--collect", metavar="N", help="Run up to N values of many calls as one job.")
    ] = None,
    within: Annotated[
        str | None, typer.Option("--within", metavar="SPAN", help="Collect at most for so long (5s).")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="KEY", help="Tell calls apart that are debounced or collected.")
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect", metavar="TEXT", help="Alert when it has not succeeded 'within 10m' of being due, or 'by 06:00'."
        ),
    ] = None,
    shard_key: Annotated[
        str | None,
        typer.Option("--shard-key", metavar="TEXT", help="Keep it in the shard of this text, in a cluster."),
    ] = None,
) -> None:
    """Store a job for a worker to run.

    It is durable when this returns. Without --app, or $HORAE_APP, the name and the arguments are taken as they are, the
    queue is default and a failure is retried twice after 300 s. With it, the job goes to the app's own database unless
    --db names another.
    """
    arguments = arguments_from(arg or [], args, stdin)
    options: dict[str, Any] = {
        "queue": queue,
        "priority": priority_from(priority),
        "delay": None if delay is None else span_from(delay, "delay"),
        "run_at": None if run_at is None else instant_from(run_at),
        "key": key,
        "unique": unique,
        "owner": owner,
        "tags": tuple(tag or ()) or None,
        "after": tuple(after or ()) or None,
        "on_parent_dead": on_parent_dead,
        "budget": budget,
        "cost": arguments_from(cost, None, None) if cost else None,
        "debounce": _debounce(debounce, max_wait, by),
        "collect": None if collect is None else Collect(collect, span_from(within or "5s", "within"), by),
        "expect": expect,
        "shard_key": shard_key,
    }
    if (by or max_wait or within) and debounce is None and collect is None:
        raise InvalidInput("gather_missing")
    chosen = {option: value for option, value in options.items() if value is not None}
    target = app or terminal.settings.app
    if target is not None:
        _through_app(terminal, target, name, arguments, chosen, max_attempts)
    else:
        _through_store(terminal, name, arguments, chosen, max_attempts)


def _debounce(wait: str | None, max_wait: str | None, key: str | None) -> Debounce | None:
    if wait is None:
        return None
    longest = None if max_wait is None else span_from(max_wait, "max_wait")
    return Debounce(span_from(wait, "debounce"), longest, key)


def _through_app(
    terminal: Terminal,
    target: str,
    name: str,
    arguments: dict[str, Any],
    chosen: dict[str, Any],
    max_attempts: int | None,
) -> None:
    """Enqueue as the application does: its signature checks the arguments, its declaration gives queue and retry."""
    from horae.app import JobHandle
    from horae.cli.process.targets import application, database_of
    from horae.cli.verbs import LocalVerbs

    with application(target, terminal.database) as app:
        owner = chosen.pop("owner", None)
        handle: JobHandle[..., Any] = JobHandle(app, app.definitions.get(name)).using(**chosen)
        request = _with_max_attempts(handle.request(**arguments), max_attempts)
        if terminal.url is None:
            _enqueue(terminal, LocalVerbs(app.world, actor(terminal), owner), request)
            _say_where(terminal, target, database_of(app))
            return
    with reached(terminal, owner=owner) as remote:
        _enqueue(terminal, remote, request)


def _say_where(terminal: Terminal, target: str, database: str) -> None:
    """Name the application's database where commands without it ask another."""
    if database != redact_url(terminal.settings.database_url):
        terminal.say(f"Stored in the database of {target}; ask there: horae job list --db {database}")


def _through_store(
    terminal: Terminal, name: str, arguments: dict[str, Any], chosen: dict[str, Any], max_attempts: int | None
) -> None:
    """Enqueue without the application: take the name and the arguments as they are."""
    from horae.actions.jobs.requests import Request

    owner = chosen.pop("owner", None)
    request = _with_max_attempts(Request(name, arguments, **chosen), max_attempts)
    with reached(terminal, may_create=True, owner=owner) as here:
        _enqueue(terminal, here, request)


def _with_max_attempts(request: Request, max_attempts: int | None) -> Request:
    if max_attempts is None:
        return request
    return replace(request, retry=replace(request.retry, attempts=max_attempts))


def _enqueue(terminal: Terminal, here: Verbs, request: Request) -> None:
    from horae.api.jobs.room import options_of

    made = here.jobs.enqueue(**options_of(request))
    if made.state == "cancelled" and not made.deduplicated:
        reason = here.jobs.get(made.id).cancel_reason
        terminal.result(to_json(made), f"{made.id} cancelled at once: {reason}")
        return
    what = "is the job of this key already" if made.deduplicated else "enqueued"
    if made.gathered:
        verb, noun = ("debounces", "call") if request.collect is None else ("collects", "value")
        what = f"{verb} {made.gathered} {noun}{'' if made.gathered == 1 else 's'} so far"
    due = words.both(made.run_at, here.now())
    terminal.result(to_json(made), f"{made.id} {what}: {request.handler} in queue {request.queue}, due {due}")


@command(
    group,
    "list",
    by_url=True,
    examples=("horae job list --state dead --queue mail", "horae job list --where 'error:Timeout ended:>-2h'"),
)
def list_(
    terminal: Terminal,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="queued, running, succeeded, dead, cancelled. Repeat it."),
    ] = None,
    queue: QueueOf = None,
    handler: HandlerOf = None,
    tag: TagOf = None,
    owner: OwnerOf = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only with this idempotency key.")] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="FILTER", help="A filter in words: 'queue:mail error:Timeout ended:>-2h'."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many.")] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the page before ended.")
    ] = None,
) -> None:
    """Jobs, newest first, live and finished."""
    filters = drop_none(queue=queue, handler=handler, tag=tag, owner=owner, key=key, where=where)
    with reached(terminal) as here:
        page = here.jobs.list(state=cast("list[State]", state or []), **filters).page(cursor, limit=limit)
        now = here.now()
    nothing = "No such jobs." if filters or state else "No jobs yet."
    if not page.items and terminal.url is None:
        nothing += f" Looked in {redact_url(terminal.settings.database_url)}."
    terminal.result(to_json(page), job_table(terminal, page.items, now) if page.items else nothing)
    if page.next_cursor and not terminal.is_json:
        number = last_number(page.next_cursor)
        seen = f"Looked back to job_{number}. " if number and len(page.items) < limit else ""
        terminal.say(f"{seen}There may be more: --cursor {page.next_cursor}")


@command(group, "show", by_url=True)
def show(terminal: Terminal, job_id: JobId) -> None:
    """Show a job: its state, why, runs and error."""
    with reached(terminal) as here, here.moment():
        job = here.jobs.get(job_id)
        past = here.jobs.runs(job_id)
        why = here.jobs.why(job_id)
        now = here.now()
    document = to_json({"job": job, "why": why, "runs": past})
    terminal.result(document, job_page(terminal, job, why, past, now))


@command(group, "wait", by_url=True, examples=("horae job wait job_12 --timeout 10m",))
def wait(
    terminal: Terminal,
    job_id: JobId,
    timeout: Timeout = "5m",
) -> None:
    """Wait until a job has ended.

    Exits with 0 when it succeeded, with 1 when it is dead or was cancelled, and with 75 when it has not ended in time.
    """
    with reached(terminal) as here:
        job = here.jobs.wait(job_id, timeout=span_from(timeout, "timeout"))
    why = job.last_error if job.state == "dead" else job.cancel_reason
    terminal.result(to_json(job), f"{job.id} {job.state}" + (f": {why}" if why and job.state != "succeeded" else ""))
    if job.state != "succeeded":
        raise typer.Exit(Exit.FAILURE)


@command(
    group,
    "cancel",
    by_url=True,
    examples=("horae job cancel job_12", "horae job cancel --where 'queue:mail created:<-7d' --dry-run"),
)
def cancel(
    terminal: Terminal,
    job_ids: JobIds = None,
    where: Where = None,
    dry_run: DryRun = False,
    reason: Reason = "",
) -> None:
    """End waiting jobs; ask running ones to stop.

    One job is cancelled at once. Several, or all that fit --where, are a bulk act that a worker does: `horae act`.
    """
    act_on(terminal, "cancel", _by_hand(_cancel, reason), job_ids, where, dry_run, reason)


@command(
    group,
    "revive",
    by_url=True,
    examples=("horae job revive job_12", "horae job revive --where 'state:dead error:Timeout' --reason mended"),
)
def revive(
    terminal: Terminal,
    job_ids: JobIds = None,
    where: Where = None,
    dry_run: DryRun = False,
    reason: Reason = "",
) -> None:
    """Give dead jobs all their attempts again.

    They are due now. A job that waits for its next attempt is not dead: `horae job retry` tries it now. Several, or all
    that fit --where, are a bulk act that a worker does: `horae act`.
    """
    act_on(terminal, "revive", _by_hand(_revive, reason), job_ids, where, dry_run, reason)


@command(
    group,
    "reschedule",
    by_url=True,
    examples=("horae job reschedule job_12 --in 2h", "horae job reschedule --where 'queue:mail' --in 30m"),
)
def reschedule(
    terminal: Terminal,
    job_ids: JobIds = None,
    where: Where = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="INSTANT", help="Due at 2030-01-07T06:00:00Z or with an offset.")
    ] = None,
    after: Annotated[str | None, typer.Option("--in", metavar="SPAN", help="Due after 90s, 5m, 2h, 1d …")] = None,
    dry_run: DryRun = False,
    reason: Reason = "",
) -> None:
    """Move waiting jobs to another time.

    Several, or all that fit --where, are a bulk act that a worker does; `horae act undo` moves them back.
    """
    if (to is None) == (after is None):
        raise InvalidInput("reschedule_time_unclear")
    run_at = None if to is None else instant_from(to)
    delay = None if after is None else span_from(after, "--in")

    def one(here: Verbs, job_id: str) -> Job:
        when = run_at if delay is None else here.now() + delay
        return here.jobs.reschedule(job_id, run_at=when, reason=reason)

    act_on(terminal, "reschedule", one, job_ids, where, dry_run, reason, run_at=run_at, delay=delay)


@command(group, "retry", by_url=True)
def retry(terminal: Terminal, job_id: JobId, reason: Reason = "") -> None:
    """Try again now.

    A dead job is revived; a waiting one becomes due at once and keeps its count of attempts.
    """
    with reached(terminal) as here:
        job = _retry(here, job_id, reason)
    terminal.result(to_json(job), f"{job.id}: {job.state}")


def _cancel(here: Verbs, job_id: str, reason: str) -> Job:
    return here.jobs.cancel(job_id, reason=reason)


def _revive(here: Verbs, job_id: str, reason: str) -> Job:
    return here.jobs.revive(job_id, reason=reason)


def _retry(here: Verbs, job_id: str, reason: str) -> Job:
    job = here.jobs.get(job_id)
    if job.state == "dead":
        return here.jobs.revive(job_id, reason=reason)
    if job.state == "queued":
        return here.jobs.reschedule(job_id, run_at=min(job.run_at, here.now()), reason=reason)
    if job.state == "running":
        raise NotAllowed("retry_of_running", id=job.id)
    raise NotAllowed("retry_of_ended", id=job.id, state=job.state)


rerun.register(group)
follow.register(group)


def _by_hand(verb: Callable[..., Job], reason: str) -> Callable[[Verbs, str], Job]:
    return lambda here, job_id: verb(here, job_id, reason)
