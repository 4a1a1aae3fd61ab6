"""The work itself: is it done, and if not, who is missing. Everything here is read from the tables alone (S1-36)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import func, or_, select

from horae.actions.jobs.machinery import missing
from horae.actions.jobs.reasons import SILENT
from horae.core.jobs.job import CLOSED
from horae.core.jobs.machinery import MACHINERY
from horae.core.time.instants import instant, iso, micros
from horae.doctor.findings import Check, Finding, Place, ok, problem, some, warning
from horae.errors import ConfigurationError, SecretsLocked
from horae.ports import Node, ScheduleFilter, Tx, World
from horae.stores.tables import jobs, needs, schedules, secrets, tokens

PATIENCE = timedelta(minutes=1)  # how late a start or a reaper may be before it is worth a word
LATE = timedelta(minutes=5)
SOON = timedelta(days=14)
MANY = 1000


def workers(place: Place) -> Iterator[Finding]:
    """Every queue with due work has somebody who serves it. Workers over HTTP are seen by their work alone."""
    world, now = _world(place), place.now
    nodes = [node for node in world.store.read(lambda tx: tx.nodes.all()) if node.seen_at > now - SILENT]
    alone = []
    for queue, (count, since) in world.store.read(lambda tx: _due(tx, now)).items():
        own = queue == MACHINERY
        if not any(own or queue in node.queues for node in nodes) and since < now - PATIENCE:
            alone.append(queue)
            yield problem(
                "workers",
                f"No worker serves the queue {queue}, where {_jobs(count)} {'has' if count == 1 else 'have'} been due "
                f"since {iso(since)}.",
                "horae worker MODULE:APP" if own else f"horae worker MODULE:APP --queues {queue}",
            )
    if nodes:
        yield ok("workers", f"{len(nodes)} at work: {some(_shown(node) for node in nodes)}")
    elif not alone:
        yield warning("workers", "No worker was seen in the last three minutes.", "horae worker MODULE:APP")


def lateness(place: Place) -> Iterator[Finding]:
    world, now = _world(place), place.now
    due = world.store.read(lambda tx: _due(tx, now))
    if not due:
        yield ok("due", "nothing that is due waits")
        return
    queue, (_, since) = min(due.items(), key=lambda each: each[1][1])
    told = f"{_jobs(sum(count for count, _ in due.values()))} due, the oldest since {iso(since)} in {queue}"
    if now - since > LATE:
        yield warning("due", f"{told}: more comes in than is done.", f"horae job list --state queued --queue {queue}")
    else:
        yield ok("due", told)


def leases(place: Place) -> Iterator[Finding]:
    world = _world(place)
    late = micros(world.clock.steady() - PATIENCE)
    query = select(jobs.c.id, jobs.c.worker_id).where(jobs.c.state == "running", jobs.c.leased_until < late)
    stuck = world.store.read(lambda tx: tx.connection.execute(query.limit(MANY)).all())
    if not stuck:
        yield ok("leases", "no lease is held by somebody who has gone silent")
        return
    told = some(f"job_{number}" for number, _ in stuck)
    yield problem(
        "leases",
        f"{_jobs(len(stuck))} held by workers that have gone silent, and nobody hands them on: {told}.",
        "horae worker MODULE:APP",
    )


def dead_letters(place: Place) -> Iterator[Finding]:
    query = select(func.count()).where(jobs.c.state == "dead", jobs.c.queue != MACHINERY)
    count = _world(place).store.read(lambda tx: int(tx.connection.execute(query).scalar() or 0))
    if count:
        yield warning("dead", f"{_jobs(count)} gave up after the last attempt.", "horae job list --state dead")
    else:
        yield ok("dead", "no job has given up")


def lost_parents(place: Place) -> Iterator[Finding]:
    """Jobs that wait for one that will never succeed, because their policy says so or nobody has dealt with them."""
    world = _world(place)
    stuck = world.store.read(lambda tx: tx.jobs.waits_for_ever(None, limit=MANY))
    undone = select(func.count()).select_from(needs).where(needs.c.state.in_(("failed", "revived")))
    left = world.store.read(lambda tx: int(tx.connection.execute(undone).scalar() or 0))
    if stuck:
        child, root = stuck[0]
        dead = select(jobs.c.id).where(jobs.c.id == root, jobs.c.state == "dead")
        is_dead = world.store.read(lambda tx: tx.connection.execute(dead).first()) is not None
        mend = f"horae job revive job_{root}" if is_dead else f"horae job cancel job_{child}"
        told = some(f"job_{job} (for job_{parent})" for job, parent in stuck)
        text = f"{_jobs(len(stuck))} waiting for jobs that are dead or cancelled, and for ever: {told}."
        yield warning("parents", text, mend)
    if left:
        text = f"{_jobs(left)} still to be ended, released or brought back, because others ended or were revived."
        yield warning("parents", text, "horae worker MODULE:APP")
    if not stuck and not left:
        yield ok("parents", "no job waits for one that will never succeed")


def promises(place: Place) -> Iterator[Finding]:
    """Everything that waits, starts later or recurs has a job or a next fire that will see to it."""
    found = missing(_world(place), limit=MANY)
    told = found.sentences()
    if told:
        text = f"{len(told)} of what Horae keeps would wait for ever: {some(told)}. A worker that runs mends it."
        yield problem("promises", text, "horae worker MODULE:APP")
    else:
        yield ok("promises", "every wait has its timeout, every schedule that is on its next fire")


def closed_handlers(place: Place) -> Iterator[Finding]:
    """Tenants' jobs that no worker of the house runs, because their handler is not open to tenants."""
    count = func.count().label("count")
    held = select(jobs.c.held_for, jobs.c.queue, count).where(jobs.c.held == CLOSED)
    most = held.group_by(jobs.c.held_for, jobs.c.queue).order_by(count.desc(), jobs.c.held_for).limit(MANY)
    found = _world(place).store.read(lambda tx: tx.connection.execute(most).all())
    for handler, queue, number in found[:5]:
        yield warning(
            "tenants",
            f"{_jobs(number)} of tenants held in the queue {queue}: the handler {handler} is not open to tenants. "
            "Where they may run it, declare it so and start its worker again.",
            f'@app.job("{handler}", tenants=True)',
        )
    if not found:
        yield ok("tenants", "no job of a tenant waits for a handler that is not open to tenants")


def paused_queues(place: Place) -> Iterator[Finding]:
    world, now = _world(place), place.now
    paused = [queue for queue in world.store.read(lambda tx: tx.queues.all()) if queue.paused_at is not None]
    waiting = world.store.read(lambda tx: _due(tx, now, all_queues=True))
    for queue in paused:
        count = waiting.get(queue.name, (0, now))[0]
        because = f": {queue.pause_reason}" if queue.pause_reason else ""
        told = (
            f"The queue {queue.name} is paused by {queue.paused_by or 'somebody'}{because}; {_jobs(count)} due in it."
        )
        yield warning("queues", told, f"horae queue resume {queue.name}")
    if not paused:
        yield ok("queues", "no queue is paused")


def fires(place: Place) -> Iterator[Finding]:
    """Schedules that should fire and do not: due and not fired, or switched off by what they need."""
    world, now = _world(place), place.now
    late = select(schedules.c.schedule_key).where(schedules.c.next_due_at < micros(now - PATIENCE))
    silent = select(schedules.c.schedule_key, schedules.c.inactive).where(schedules.c.inactive.is_not(None))
    overdue = world.store.read(lambda tx: [key for (key,) in tx.connection.execute(late.limit(MANY))])
    inactive = world.store.read(lambda tx: tx.connection.execute(silent.limit(MANY)).all())
    if overdue:
        told = f"{len(overdue)} schedules were due over a minute ago and nobody fires them: {some(overdue)}."
        yield problem("schedules", told, "horae worker MODULE:APP")
    reasons = Counter(str(reason) for _, reason in inactive)
    for reason, count in reasons.most_common(5):
        keys = some(key for key, each in inactive if each == reason)
        yield warning("schedules", f"{count} inactive ({keys}): {reason}", "horae reload MODULE:APP")
    if not overdue and not inactive:
        yield ok("schedules", "every schedule that is on has fired or waits for its time")


def zone_stamps(place: Place) -> Iterator[Finding]:
    world = _world(place)
    wanted = ScheduleFilter(not_tzdata=world.tzdata)
    found = world.store.read(lambda tx: tx.schedules.find(wanted, limit=MANY, after=None))
    zoned = [
        schedule for schedule in found if schedule.kind == "cron" and schedule.zone != "UTC" and schedule.is_active
    ]
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


def expiring_tokens(place: Place) -> Iterator[Finding]:
    world, now = _world(place), place.now
    valid = (tokens.c.revoked_at.is_(None), tokens.c.expires_at > micros(now))
    query = select(tokens.c.id, tokens.c.owner, tokens.c.expires_at).where(*valid)
    soon = query.where(tokens.c.expires_at < micros(now + SOON)).order_by(tokens.c.expires_at).limit(MANY)
    found = world.store.read(lambda tx: tx.connection.execute(soon).all())
    for token_id, owner, expires_at in found[:5]:
        yield warning(
            "tokens",
            f"The token {token_id} of {owner} ends at {iso(instant(expires_at))}.",
            f"horae token create --owner {owner} --scopes …",
        )
    if not found:
        yield ok("tokens", "no token ends within two weeks")


def door(place: Place) -> Iterator[Finding]:
    """Who listens to others has given somebody a token, or trusts somebody's signatures."""
    host, how = place.settings.host, place.settings
    if host == "localhost" or host.startswith("127.") or host == "::1":
        yield ok("door", f"the service listens on {host}, for this machine alone")
        return
    open_end = or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > micros(place.now))
    valid = select(func.count()).where(tokens.c.revoked_at.is_(None), open_end)
    count = _world(place).store.read(lambda tx: int(tx.connection.execute(valid).scalar() or 0))
    if count or how.jwt_secret or how.jwt_jwks_url:
        yield ok("door", f"the service listens on {host} and asks everybody for a token")
    else:
        yield warning(
            "door",
            f"The service listens on {host}, and nobody has a token that is valid.",
            "horae token create --owner system --scopes admin",
        )


def sealed_secrets(place: Place) -> Iterator[Finding]:
    """Stored secrets can be opened with the key of this process."""
    stored = select(secrets.c.owner, secrets.c.name, secrets.c.sealed).limit(MANY)
    found = _world(place).store.read(lambda tx: tx.connection.execute(stored).all())
    if not found:
        return
    try:
        from horae.outgoing.encryption import sealer_from

        sealer = sealer_from(place.environment)
        if sealer is None:
            raise SecretsLocked("secret_key_missing")
        for owner, name, text in found:
            sealer.open(owner, name, text)
    except ModuleNotFoundError:
        yield warning(
            "secrets", "There are stored secrets, but cryptography is missing.", "pip install 'horae[server]'"
        )
    except (ConfigurationError, SecretsLocked) as trouble:
        yield problem(
            "secrets",
            f"{len(found)} secrets are stored and cannot all be opened: {trouble}",
            "export HORAE_SECRET_KEY_FILE=/etc/horae/secret-key",
        )
    else:
        yield ok("secrets", f"all {len(found)} stored secrets can be opened")


def orchestrator(place: Place) -> Iterator[Finding]:
    """Somebody schedules questions, so there must be somebody to ask."""
    asks = select(func.count()).where(schedules.c.handler == "dispatch", schedules.c.enabled == 1)
    count = _world(place).store.read(lambda tx: int(tx.connection.execute(asks).scalar() or 0))
    known = ("ORCHESTRATOR_URL", "FUN_AGENT_SERVICE_URL")
    if count and not any(place.environment.get(name) for name in known):
        yield warning(
            "orchestrator",
            f"{count} schedules ask an orchestrator, and ORCHESTRATOR_URL is not set here.",
            "export ORCHESTRATOR_URL=https://…",
        )


def _world(place: Place) -> World:
    assert place.world is not None
    return place.world


def _due(tx: Tx, now: datetime, *, all_queues: bool = False) -> dict[str, tuple[int, datetime]]:
    """Queue by queue: how many jobs are due, and since when the oldest; without paused queues unless told."""
    query = select(jobs.c.queue, func.count(), func.min(jobs.c.run_at)).group_by(jobs.c.queue)
    query = query.where(jobs.c.state == "queued", jobs.c.held == "", jobs.c.run_at <= micros(now))
    paused = {queue.name for queue in tx.queues.all() if queue.paused_at is not None and not all_queues}
    rows = tx.connection.execute(query)
    return {queue: (int(count), instant(int(since))) for queue, count, since in rows if queue not in paused}


def _jobs(count: int) -> str:
    return f"{count:,} job" if count == 1 else f"{count:,} jobs"


def _shown(node: Node) -> str:
    return f"{node.node_id} ({', '.join(node.queues) or 'no queue'})"


CHECKS: tuple[Check, ...] = (
    workers, lateness, leases, dead_letters, lost_parents, promises, closed_handlers, paused_queues, fires, zone_stamps,
    expiring_tokens, door, sealed_secrets, orchestrator,
)  # fmt: skip
