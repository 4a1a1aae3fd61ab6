"""Checks of the work itself: is it done, and if not, who is missing. They read the tables alone (S1-36)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from horae.actions.audit import has_unsealed
from horae.actions.budgets.budgets import find_overdrawn
from horae.actions.budgets.repair import check as check_budgets
from horae.actions.jobs.machinery import find_missing
from horae.actions.jobs.reasons import SILENT
from horae.actions.partitions import read_history
from horae.actions.roll_up import is_behind
from horae.core.jobs.machinery import MACHINERY
from horae.core.partitions import ALARM_BELOW
from horae.core.schedules.words import length
from horae.core.time.instants import iso
from horae.doctor.findings import Check, Finding, Installation, ok, problem, some, warning
from horae.errors import ConfigurationError, SecretsLocked
from horae.ports import DueBacklog, Node, ScheduleFilter, Tx, World
from horae.runtime.chores.janitor import CHORES

PATIENCE = timedelta(minutes=1)  # how late a start or a reaper may be before it is worth a word
LATE = timedelta(minutes=5)
MINUTE = timedelta(minutes=1)
SOON = timedelta(days=14)
MANY = 1000
# What piles up where no process does chores.
WAITING: tuple[tuple[Callable[[World], bool], str], ...] = (
    (has_unsealed, "audit entries wait to be sealed"),
    (is_behind, "the statistics are behind"),
)


def workers(installation: Installation) -> Iterator[Finding]:
    """Check that every queue with due work is served. Workers over HTTP are seen by their work alone."""
    world, now = _world(installation), installation.now
    nodes = [node for node in world.store.read(lambda tx: tx.nodes.all()) if node.seen_at > now - SILENT]
    unserved = []
    for due in world.store.read(lambda tx: _due_in_open_queues(tx, now)):
        own = due.queue == MACHINERY
        if not any(own or node.serves(due.queue) for node in nodes) and due.oldest < now - PATIENCE:
            unserved.append(due.queue)
            yield problem(
                "workers",
                f"No worker serves the queue {due.queue}, where {_jobs(due.count)} "
                f"{'has' if due.count == 1 else 'have'} been due since {iso(due.oldest)}.",
                "horae worker MODULE:APP" if own else f"horae worker MODULE:APP --queues {due.queue}",
            )
    if nodes:
        yield ok("workers", f"{len(nodes)} at work: {some(_with_queues(node) for node in nodes)}")
    elif not unserved:
        yield warning("workers", "No worker was seen in the last three minutes.", "horae worker MODULE:APP")


def lateness(installation: Installation) -> Iterator[Finding]:
    """Check that due jobs do not pile up."""
    world, now = _world(installation), installation.now
    due = world.store.read(lambda tx: _due_in_open_queues(tx, now))
    if not due:
        yield ok("due", "nothing that is due waits")
        return
    first = min(due, key=lambda each: each.oldest)
    text = f"{_jobs(sum(each.count for each in due))} due, the oldest since {iso(first.oldest)} in {first.queue}"
    if now - first.oldest > LATE:
        mend = f"horae job list --state queued --queue {first.queue}"
        yield warning("due", f"{text}: more comes in than is done.", mend)
    else:
        yield ok("due", text)


def leases(installation: Installation) -> Iterator[Finding]:
    """Check that jobs of silent workers are handed on."""
    world = _world(installation)
    late = world.clock.steady() - PATIENCE
    stuck = world.store.read(lambda tx: tx.health.expired_leases(late, limit=MANY))
    if not stuck:
        yield ok("leases", "no lease is held by a worker that has gone silent")
        return
    names = some(f"job_{number}" for number in stuck)
    yield problem(
        "leases",
        f"{_jobs(len(stuck))} held by workers that have gone silent, and none hands them on: {names}.",
        "horae worker MODULE:APP",
    )


def chores(installation: Installation) -> Iterator[Finding]:
    """Check that some process does chores. Workers over HTTP do none, and neither does a server with --no-chores."""
    world = _world(installation)
    now = world.clock.steady()
    known = {each.name: each for each in world.store.read(lambda tx: tx.health.chores())}
    done = [known[chore.name] for chore in CHORES if chore.when is None and chore.name in known]
    late = [each for each in done if max(each.due_at, each.leased_until) < now - LATE]
    waits = [text for is_so, text in WAITING if is_so(world)]
    if late:
        overdue = max(now - each.due_at for each in late)
        names = some(f"“{each.name}”" for each in late)
        text = f"No process does chores: {names} should have begun {length(overdue - overdue % MINUTE)} ago."
        level = problem if waits else warning
    elif not done and waits:
        text, level = "No process has done chores yet.", warning
    else:
        yield ok("chores", "done when they are due" if done else "nothing is to be done yet")
        return
    beside = f" Meanwhile {' and '.join(waits)}." if waits else ""
    why = " Workers over HTTP and servers with --no-chores do none: start one process that does."
    yield level("chores", text + beside + why, "horae server")


def dead_letters(installation: Installation) -> Iterator[Finding]:
    count = _world(installation).store.read(lambda tx: tx.health.count_dead())
    if count:
        yield warning("dead", f"{_jobs(count)} gave up after the last attempt.", "horae job list --state dead")
    else:
        yield ok("dead", "no job has given up")


def lost_parents(installation: Installation) -> Iterator[Finding]:
    """Check for jobs that wait for one that will never succeed, by their policy or because none has settled them."""
    world = _world(installation)
    stuck = world.store.read(lambda tx: tx.jobs.waits_for_ever(None, limit=MANY))
    left = world.store.read(lambda tx: tx.health.count_unsettled_needs())
    if stuck:
        child, root = stuck[0]
        parent = world.store.read(lambda tx: tx.jobs.get(root))
        is_dead = parent is not None and parent.state == "dead"
        mend = f"horae job revive job_{root}" if is_dead else f"horae job cancel job_{child}"
        names = some(f"job_{job} (for job_{parent})" for job, parent in stuck)
        text = f"{_jobs(len(stuck))} waiting for jobs that are dead or cancelled, and for ever: {names}."
        yield warning("parents", text, mend)
    if left:
        text = f"{_jobs(left)} still to be ended, released or brought back, because others ended or were revived."
        yield warning("parents", text, "horae worker MODULE:APP")
    if not stuck and not left:
        yield ok("parents", "no job waits for one that will never succeed")


def promises(installation: Installation) -> Iterator[Finding]:
    """Check that everything that waits, starts later or recurs has a job or a next fire that will see to it."""
    broken = find_missing(_world(installation), limit=MANY).sentences()
    if broken:
        text = f"{len(broken)} of what Horae keeps would wait for ever: {some(broken)}. A worker that runs mends it."
        yield problem("promises", text, "horae worker MODULE:APP")
    else:
        yield ok("promises", "every wait has its timeout, every schedule that is on its next fire")


def closed_handlers(installation: Installation) -> Iterator[Finding]:
    """Check for tenants' jobs that no worker of the house runs, because their handler is not open to tenants."""
    held = _world(installation).store.read(lambda tx: tx.health.closed_handlers(limit=MANY))
    for handler, queue, number in held[:5]:
        yield warning(
            "tenants",
            f"{_jobs(number)} of tenants held in the queue {queue}: the handler {handler} is not open to tenants. "
            "Where they may run it, declare it so and start its worker again.",
            f'@app.job("{handler}", tenants=True)',
        )
    if not held:
        yield ok("tenants", "no job of a tenant waits for a handler that is not open to tenants")


def budgets(installation: Installation) -> Iterator[Finding]:
    """Check that what attempts have reserved adds up, and that no budget is exceeded."""
    world = _world(installation)
    left = world.store.read(lambda tx: tx.budgets.leftovers(limit=MANY))
    wrong, over = world.store.read(check_budgets), find_overdrawn(world)
    if left:
        names = some(dict.fromkeys(f"job_{each.job}" for each in left))
        text = (
            f"{len(left)} reservations of budgets belong to attempts that have ended: {names}. A worker settles them."
        )
        yield warning("budgets", text, "horae worker MODULE:APP")
    for each in wrong[:5]:
        yield problem("budgets", f"Budget number {each.period[0]}, period of {iso(each.period[1])}: {each.problem}.")
    for view in over[:5]:
        text = f"The budget {view.budget.id} of {view.budget.owner} was exceeded by {view.period.overdrawn:,}."
        yield warning("budgets", text, f"horae budget show {view.budget.reference} {view.budget.unit}")
    if not (left or wrong or over):
        yield ok("budgets", "no budget is exceeded, and reservations add up")


def paused_queues(installation: Installation) -> Iterator[Finding]:
    world, now = _world(installation), installation.now
    paused = [queue for queue in world.store.read(lambda tx: tx.queues.all()) if queue.paused_at is not None]
    counts = {due.queue: due.count for due in world.store.read(lambda tx: tx.health.due(now))}
    for queue in paused:
        because = f": {queue.pause_reason}" if queue.pause_reason else ""
        by = queue.paused_by or "an unknown actor"
        text = f"The queue {queue.name} is paused by {by}{because}; {_jobs(counts.get(queue.name, 0))} due in it."
        yield warning("queues", text, f"horae queue resume {queue.name}")
    if not paused:
        yield ok("queues", "no queue is paused")


def fires(installation: Installation) -> Iterator[Finding]:
    """Check for schedules that should fire and do not: due and not fired, or switched off by what they need."""
    world, now = _world(installation), installation.now
    overdue = world.store.read(lambda tx: tx.health.overdue_schedules(now - PATIENCE, limit=MANY))
    inactive = world.store.read(lambda tx: tx.health.inactive_schedules(limit=MANY))
    if overdue:
        text = f"{len(overdue)} schedules were due over a minute ago and no worker fires them: {some(overdue)}."
        yield problem("schedules", text, "horae worker MODULE:APP")
    for reason, count in Counter(reason for _, reason in inactive).most_common(5):
        keys = some(key for key, each in inactive if each == reason)
        yield warning("schedules", f"{count} inactive ({keys}): {reason}", "horae reload MODULE:APP")
    if not overdue and not inactive:
        yield ok("schedules", "every schedule that is on has fired or waits for its time")


def zone_stamps(installation: Installation) -> Iterator[Finding]:
    """Check that every schedule was computed with the zone database that is in use here."""
    world = _world(installation)
    outdated = ScheduleFilter(not_tzdata=world.tzdata)
    schedules = world.store.read(lambda tx: tx.schedules.find(outdated, limit=MANY, after=None))
    zoned = [each for each in schedules if each.kind == "cron" and each.zone != "UTC" and each.is_active]
    if zoned:
        editions = ", ".join(sorted({schedule.tzdata or "an unknown one" for schedule in zoned}))
        yield warning(
            "zones",
            f"{len(zoned)} schedules were computed with another zone database ({editions}) than the one here "
            f"({world.tzdata}): {some(each.key for each in zoned)}. A worker that starts computes them again.",
            "systemctl restart 'horae-worker@*'",
        )
    else:
        yield ok("zones", "every schedule was computed with the zone database that is in use here")


def expiring_tokens(installation: Installation) -> Iterator[Finding]:
    world, now = _world(installation), installation.now
    expiring = world.store.read(lambda tx: tx.health.expiring_tokens(now, now + SOON, limit=MANY))
    for token_id, owner, expires_at in expiring[:5]:
        yield warning(
            "tokens",
            f"The token {token_id} of {owner} ends at {iso(expires_at)}.",
            f"horae token create --owner {owner} --scopes …",
        )
    if not expiring:
        yield ok("tokens", "no token ends within two weeks")


def door(installation: Installation) -> Iterator[Finding]:
    """Check that a service which other machines reach has a valid token or trusts signatures."""
    host, settings = installation.settings.host, installation.settings
    if host == "localhost" or host.startswith("127.") or host == "::1":
        yield ok("door", f"the service listens on {host}, for this machine alone")
        return
    count = _world(installation).store.read(lambda tx: tx.health.count_valid_tokens(installation.now))
    if count or settings.jwt_secret or settings.jwt_jwks_url:
        yield ok("door", f"the service listens on {host} and requires a token of every caller")
    else:
        yield warning(
            "door",
            f"The service listens on {host}, and there is no valid token.",
            "horae token create --owner system --scopes admin",
        )


def sealed_secrets(installation: Installation) -> Iterator[Finding]:
    """Check that stored secrets can be opened with the key of this process."""
    stored = _world(installation).store.read(lambda tx: tx.health.sealed_secrets(limit=MANY))
    if not stored:
        return
    try:
        from horae.outgoing.encryption import sealer_from

        sealer = sealer_from(installation.environment)
        if sealer is None:
            raise SecretsLocked("secret_key_missing")
        for owner, name, text in stored:
            sealer.open(owner, name, text)
    except ModuleNotFoundError:
        yield warning(
            "secrets", "There are stored secrets, but cryptography is missing.", "pip install 'horae[server]'"
        )
    except (ConfigurationError, SecretsLocked) as trouble:
        yield problem(
            "secrets",
            f"{len(stored)} secrets are stored and cannot all be opened: {trouble}",
            "export HORAE_SECRET_KEY_FILE=/etc/horae/secret-key",
        )
    else:
        yield ok("secrets", f"all {len(stored)} stored secrets can be opened")


def history(installation: Installation) -> Iterator[Finding]:
    """Check that the partitions of the history are made ahead and that no rows lie beside them."""
    world, now = _world(installation), installation.now
    states = world.store.read(lambda tx: read_history(tx, now))
    for state in states:
        if state.is_short:
            text = f"{state.table} has partitions for {state.days_ahead} more days, fewer than {ALARM_BELOW}."
            text += " No worker makes them, or its role may not: what ends later lies in the catch-all."
            yield problem("history", text, "horae db migrate")
        if state.is_overfull:
            text = f"More than {state.moved_at_most:,} rows of {state.table} lie in the catch-all. To move them keeps"
            text += " every ending waiting, so that no worker does it, and no days are made. Do it at a quiet hour."
            yield problem("history", text, "horae db migrate")
        elif state.catch_all:
            text = f"{state.catch_all:,} rows of {state.table} lie in the catch-all partition. A worker moves them"
            yield warning("history", f"{text}, unless they ended in the future: look at the clocks.", "horae doctor")
    if states and not any(state.is_short or state.catch_all for state in states):
        yield ok("history", f"its partitions are made for {min(each.days_ahead for each in states)} more days")


def orchestrator(installation: Installation) -> Iterator[Finding]:
    """Check that an orchestrator is named where schedules ask one."""
    count = _world(installation).store.read(lambda tx: tx.health.count_enabled_schedules("dispatch"))
    known = ("ORCHESTRATOR_URL", "FUN_AGENT_SERVICE_URL")
    if count and not any(installation.environment.get(name) for name in known):
        yield warning(
            "orchestrator",
            f"{count} schedules ask an orchestrator, and ORCHESTRATOR_URL is not set here.",
            "export ORCHESTRATOR_URL=https://…",
        )


def _world(installation: Installation) -> World:
    assert installation.world is not None
    return installation.world


def _due_in_open_queues(tx: Tx, now: datetime) -> list[DueBacklog]:
    paused = {queue.name for queue in tx.queues.all() if queue.paused_at is not None}
    return [due for due in tx.health.due(now) if due.queue not in paused]


def _jobs(count: int) -> str:
    return f"{count:,} job" if count == 1 else f"{count:,} jobs"


def _with_queues(node: Node) -> str:
    return f"{node.node_id} ({'drained' if node.drain else ', '.join(node.queues) or 'no queue'})"


CHECKS: tuple[Check, ...] = (
    workers, lateness, leases, chores, dead_letters, lost_parents, promises, closed_handlers, budgets, paused_queues,
    fires, zone_stamps, expiring_tokens, door, sealed_secrets, history, orchestrator,
)  # fmt: skip
