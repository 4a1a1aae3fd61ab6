"""Checks of the work itself: is it done, and if not, who is missing. They read the tables alone (S1-36)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from horae.actions import bus
from horae.actions.audit import has_unsealed
from horae.actions.budgets.budgets import find_overdrawn
from horae.actions.budgets.repair import check as check_budgets
from horae.actions.jobs.promises import find_missing
from horae.actions.jobs.reasons import SILENT
from horae.actions.partitions import read_history
from horae.actions.roll_up import is_behind
from horae.core.cluster.numbers import job_id
from horae.core.dispatch import RELAY, RELAY_OF_ONE
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import MACHINERY
from horae.core.partitions import ALARM_BELOW
from horae.core.time.instants import iso
from horae.doctor.findings import Check, Finding, Installation, ok, problem, some, warning
from horae.errors import ConfigurationError, Fact, SecretsLocked
from horae.ports.queues import DueBacklog
from horae.ports.schedules import ScheduleFilter
from horae.ports.store import Tx
from horae.ports.workers import Node
from horae.ports.world import World
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
    for due in world.store.read(lambda tx: due_in_open_queues(tx, now)):
        own = due.queue == MACHINERY
        if not any(own or node.serves(due.queue) for node in nodes) and due.oldest < now - PATIENCE:
            unserved.append(due.queue)
            mend = "horae worker MODULE:APP" if own else f"horae worker MODULE:APP --queues {due.queue}"
            yield problem(
                "workers", "queue_unserved", mend, queue=due.queue, count=due.count, since=iso(due.oldest)
            )  # fmt: skip
    if nodes:
        yield ok("workers", "workers_at_work", count=len(nodes), names=some(_with_queues(node) for node in nodes))
    elif not unserved:
        yield warning("workers", "workers_none", "horae worker MODULE:APP")


def lateness(installation: Installation) -> Iterator[Finding]:
    """Check that due jobs do not pile up."""
    world, now = _world(installation), installation.now
    due = world.store.read(lambda tx: due_in_open_queues(tx, now))
    if not due:
        yield ok("due", "due_none")
        return
    first = min(due, key=lambda each: each.oldest)
    count, since = sum(each.count for each in due), iso(first.oldest)
    if now - first.oldest > LATE:
        mend = f"horae job list --state queued --queue {first.queue}"
        yield warning("due", "due_late", mend, count=count, since=since, queue=first.queue)
    else:
        yield ok("due", "due_some", count=count, since=since, queue=first.queue)


def leases(installation: Installation) -> Iterator[Finding]:
    """Check that jobs of silent workers are handed on."""
    world = _world(installation)
    late = world.clock.steady() - PATIENCE
    stuck = world.store.read(lambda tx: tx.health.expired_leases(late, limit=MANY))
    if not stuck:
        yield ok("leases", "leases_well")
        return
    names = some(job_id(number) for number in stuck)
    yield problem("leases", "leases_stuck", "horae worker MODULE:APP", count=len(stuck), names=names)


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
        names, since = some(f"“{each.name}”" for each in late), (overdue - overdue % MINUTE).total_seconds()
        if waits:
            yield problem("chores", "chores_late_and_waiting", "horae server", names=names, late=since, waits=waits)
        else:
            yield warning("chores", "chores_late", "horae server", names=names, late=since)
    elif not done and waits:
        yield warning("chores", "chores_never_done", "horae server", waits=waits)
    else:
        yield ok("chores", "chores_done") if done else ok("chores", "chores_nothing_yet")


def message_bus(installation: Installation) -> Iterator[Finding]:
    """Check that events are noted and published where the bus is switched on."""
    world = _world(installation)
    if world.cluster is not None:  # a running process: it has all databases open
        from horae.doctor.cluster_bus import bus_members

        yield from bus_members(world, installation)
        return
    found = bus.status(world)
    if found.missing:
        yield problem("bus", "bus_incomplete", "horae bus on", names=", ".join(found.missing))
    elif found.oldest_at is not None and found.oldest_at < installation.now - LATE:
        since = iso(found.oldest_at)
        yield problem("bus", "bus_behind", "horae bus status", count=found.waiting, since=since)
    elif found.enabled:
        yield ok("bus", "bus_well", count=found.waiting)
    else:
        yield ok("bus", "bus_off")


def dispatch(installation: Installation) -> Iterator[Finding]:
    """Check that a relay hands out jobs where dispatch over the bus is switched on."""
    world = _world(installation)
    if not installation.settings.nats_dispatch or world.cluster is not None:
        return
    now = world.clock.steady()
    relays = [each for each in world.store.read(lambda tx: tx.health.chores()) if each.name in (RELAY, RELAY_OF_ONE)]
    if any(each.leased_until > now for each in relays):
        yield ok("dispatch", "dispatch_well")
    else:
        yield problem("dispatch", "dispatch_missing", "horae worker MODULE:APP")


def dead_letters(installation: Installation) -> Iterator[Finding]:
    count = _world(installation).store.read(lambda tx: tx.health.count_dead())
    if count:
        yield warning("dead", "dead_some", "horae job list --state dead", count=count)
    else:
        yield ok("dead", "dead_none")


def lost_parents(installation: Installation) -> Iterator[Finding]:
    """Check for jobs that wait for one that will never succeed, by their policy or because none has settled them."""
    world = _world(installation)
    stuck = world.store.read(lambda tx: tx.jobs.waits_for_ever(None, limit=MANY))
    left = world.store.read(lambda tx: tx.health.count_unsettled_needs())
    if stuck:
        child, root = stuck[0]
        parent = world.store.read(lambda tx: tx.jobs.get(root))
        is_dead = parent is not None and parent.state == "dead"
        mend = f"horae job revive {job_id(root)}" if is_dead else f"horae job cancel {job_id(child)}"
        names = some(f"{job_id(job)} (for {job_id(parent)})" for job, parent in stuck)
        yield warning("parents", "parents_lost", mend, count=len(stuck), names=names)
    if left:
        yield warning("parents", "parents_unsettled", "horae worker MODULE:APP", count=left)
    if not stuck and not left:
        yield ok("parents", "parents_well")


def promises(installation: Installation) -> Iterator[Finding]:
    """Check that everything that waits, starts later or recurs has a job or a next fire that will see to it."""
    broken = find_missing(_world(installation), limit=MANY)
    if broken:
        mend = "horae worker MODULE:APP"
        yield problem("promises", "promises_broken", mend, count=len(broken), names=some(broken))
    else:
        yield ok("promises", "promises_kept")


def undriven_lanes(installation: Installation) -> Iterator[Finding]:
    """Check that tasks which agents have accepted have a process that drives their lane."""
    world, before = _world(installation), installation.now - LATE
    left = world.store.read(lambda tx: tx.health.undriven_lanes(before, world.clock.steady(), limit=MANY))
    if left:
        names = some(lane if owner == SYSTEM else f"{lane} of {owner}" for lane, owner in left)
        yield warning("lanes", "lanes_undriven", "horae attention serve MODULE:AGENT", count=len(left), names=names)
    else:
        yield ok("lanes", "lanes_driven")


def closed_handlers(installation: Installation) -> Iterator[Finding]:
    """Check for tenants' jobs that no worker of the house runs, because their handler is not open to tenants."""
    held = _world(installation).store.read(lambda tx: tx.health.closed_handlers(limit=MANY))
    for handler, queue, number in held[:5]:
        mend = f'@app.job("{handler}", tenants=True)'
        yield warning("tenants", "tenants_held", mend, count=number, queue=queue, handler=handler)
    if not held:
        yield ok("tenants", "tenants_well")


def budgets(installation: Installation) -> Iterator[Finding]:
    """Check that what attempts have reserved adds up, and that no budget is exceeded."""
    world = _world(installation)
    left = world.store.read(lambda tx: tx.budgets.leftovers(limit=MANY))
    wrong, over = world.store.read(check_budgets), find_overdrawn(world)
    if left:
        names = some(dict.fromkeys(job_id(each.job) for each in left))
        mend = "horae worker MODULE:APP"
        yield warning("budgets", "reservations_left", mend, count=len(left), names=names)
    for each in wrong[:5]:
        number, period = each.period[0], iso(each.period[1])
        yield problem("budgets", "budget_wrong", number=number, period=period, problem=each.problem)
    for view in over[:5]:
        mend = f"horae budget show {view.budget.reference} {view.budget.unit}"
        facts: dict[str, Fact] = {"owner": view.budget.owner, "amount": view.period.overdrawn}
        yield warning("budgets", "budget_exceeded", mend, budget=view.budget.id, **facts)
    if not (left or wrong or over):
        yield ok("budgets", "budgets_well")


def paused_queues(installation: Installation) -> Iterator[Finding]:
    world, now = _world(installation), installation.now
    paused = [queue for queue in world.store.read(lambda tx: tx.queues.all()) if queue.paused_at is not None]
    counts = {due.queue: due.count for due in world.store.read(lambda tx: tx.health.due(now))}
    for queue in paused:
        facts: dict[str, Fact] = {
            "queue": queue.name, "actor": queue.paused_by or "?", "count": counts.get(queue.name, 0),
        }  # fmt: skip
        mend = f"horae queue resume {queue.name}"
        if queue.pause_reason:
            yield warning("queues", "doctor_queue_paused_because", mend, because=queue.pause_reason, **facts)
        else:
            yield warning("queues", "doctor_queue_paused", mend, **facts)
    if not paused:
        yield ok("queues", "queues_open")


def fires(installation: Installation) -> Iterator[Finding]:
    """Check for schedules that should fire and do not: due and not fired, or switched off by what they need."""
    world, now = _world(installation), installation.now
    overdue = world.store.read(lambda tx: tx.health.overdue_schedules(now - PATIENCE, limit=MANY))
    inactive = world.store.read(lambda tx: tx.health.inactive_schedules(limit=MANY))
    if overdue:
        mend = "horae worker MODULE:APP"
        yield problem("schedules", "doctor_schedules_overdue", mend, count=len(overdue), names=some(overdue))
    for reason, count in Counter(reason for _, reason in inactive).most_common(5):
        keys = some(key for key, each in inactive if each == reason)
        mend = "horae reload MODULE:APP"
        yield warning("schedules", "doctor_schedules_inactive", mend, count=count, names=keys, because=reason)
    missed = world.store.read(lambda tx: tx.expectations.find(state="open", limit=MANY))
    if missed:
        names = some(each.schedule or each.job or "" for each in missed)
        mend = "horae expectation list --state open"
        yield problem("schedules", "doctor_runs_missing", mend, count=len(missed), names=names)
    if not overdue and not inactive and not missed:
        yield ok("schedules", "schedules_well")


def zone_stamps(installation: Installation) -> Iterator[Finding]:
    """Check that every schedule was computed with the zone database that is in use here."""
    world = _world(installation)
    outdated = ScheduleFilter(not_tzdata=world.tzdata)
    schedules = world.store.read(lambda tx: tx.schedules.find(outdated, limit=MANY, after=None))
    zoned = [each for each in schedules if each.kind == "cron" and each.zone != "UTC" and each.is_active]
    if zoned:
        yield warning(
            "zones",
            "zones_elsewhere",
            "systemctl restart 'horae-worker@*'",
            count=len(zoned),
            editions=sorted({schedule.tzdata or "?" for schedule in zoned}),
            tzdata=world.tzdata,
            names=some(each.key for each in zoned),
        )
    else:
        yield ok("zones", "zones_well")


def expiring_tokens(installation: Installation) -> Iterator[Finding]:
    world, now = _world(installation), installation.now
    expiring = world.store.read(lambda tx: tx.health.expiring_tokens(now, now + SOON, limit=MANY))
    for token_id, owner, expires_at in expiring[:5]:
        mend = f"horae token create --owner {owner} --scopes …"
        yield warning("tokens", "token_ends", mend, token=token_id, owner=owner, at=iso(expires_at))
    if not expiring:
        yield ok("tokens", "tokens_well")


def door(installation: Installation) -> Iterator[Finding]:
    """Check that a service which other machines reach has a valid token or trusts signatures."""
    host, settings = installation.settings.host, installation.settings
    if host == "localhost" or host.startswith("127.") or host == "::1":
        yield ok("door", "door_local", host=host)
        return
    count = _world(installation).store.read(lambda tx: tx.health.count_valid_tokens(installation.now))
    if count or settings.jwt_secret or settings.jwt_jwks_url:
        yield ok("door", "door_guarded", host=host)
    else:
        mend = "horae token create --owner system --scopes admin"
        yield warning("door", "door_without_token", mend, host=host)


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
        yield warning("secrets", "secrets_without_extra", "pip install 'horae[server]'")
    except (ConfigurationError, SecretsLocked) as trouble:
        yield problem(
            "secrets",
            "secrets_locked",
            "export HORAE_SECRET_KEY_FILE=/etc/horae/secret-key",
            count=len(stored),
            problem=str(trouble),
        )
    else:
        yield ok("secrets", "secrets_open", count=len(stored))


def history(installation: Installation) -> Iterator[Finding]:
    """Check that the partitions of the history are made ahead and that no rows lie beside them."""
    world, now = _world(installation), installation.now
    states = world.store.read(lambda tx: read_history(tx, now))
    for state in states:
        if state.is_short:
            ahead: dict[str, Fact] = {"days": state.days_ahead, "least": ALARM_BELOW}
            yield problem("history", "history_short", "horae db migrate", table=state.table, **ahead)
        if state.is_overfull:
            mend, rows = "horae db migrate", state.moved_at_most
            yield problem("history", "history_overfull", mend, rows=rows, table=state.table)
        elif state.catch_all:
            mend = "horae doctor"
            yield warning("history", "history_beside", mend, rows=state.catch_all, table=state.table)
    tables = [state.table for state in states]
    aside = world.store.read(lambda tx: {table: tx.partitions.count_aside(table, most=MANY) for table in tables})
    for table, rows in aside.items():
        if rows:
            yield warning("history", "history_aside", "horae doctor", rows=rows, table=table)
    if states and not any(state.is_short or state.catch_all or aside[state.table] for state in states):
        yield ok("history", "history_well", days=min(each.days_ahead for each in states))


def orchestrator(installation: Installation) -> Iterator[Finding]:
    """Check that an orchestrator is named where schedules ask one."""
    count = _world(installation).store.read(lambda tx: tx.health.count_enabled_schedules("dispatch"))
    known = ("ORCHESTRATOR_URL", "FUN_AGENT_SERVICE_URL")
    if count and not any(installation.environment.get(name) for name in known):
        mend = "export ORCHESTRATOR_URL=https://…"
        yield warning("orchestrator", "orchestrator_missing", mend, count=count)


def _world(installation: Installation) -> World:
    assert installation.world is not None
    return installation.world


def due_in_open_queues(tx: Tx, now: datetime) -> list[DueBacklog]:
    paused = {queue.name for queue in tx.queues.all() if queue.paused_at is not None}
    return [due for due in tx.health.due(now) if due.queue not in paused]


def _with_queues(node: Node) -> str:
    return f"{node.node_id} ({'drained' if node.drain else ', '.join(node.queues) or 'no queue'})"


CHECKS: tuple[Check, ...] = (
    workers, lateness, leases, chores, dead_letters, lost_parents, promises, undriven_lanes, closed_handlers, budgets,
    paused_queues, fires, zone_stamps, expiring_tokens, door, sealed_secrets, history, orchestrator, message_bus,
    dispatch,
)  # fmt: skip
