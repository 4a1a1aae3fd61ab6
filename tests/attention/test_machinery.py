"""Jobs of Horae's own: nobody stops them, every worker serves them, and what is missing is found and made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from sqlalchemy import text

from horae import Horae
from horae.actions.access.tokens import create_token
from horae.actions.attention import inbox
from horae.actions.jobs import claims, endings, jobs, machinery, queues
from horae.actions.jobs.promises import find_missing
from horae.actions.jobs.reasons import why
from horae.actions.jobs.requests import Request
from horae.actions.jobs.running_limits import set_limit
from horae.actions.metrics import survey
from horae.actions.schedules import fires, schedules
from horae.alerts import watch
from horae.attention import Act, Attention, Control, Done, Facts, Turn, Wait
from horae.core.jobs.job import Filter, Job
from horae.core.jobs.machinery import BEFORE, MACHINERY
from horae.errors import InvalidInput, InvalidName, ReservedQueue
from horae.limits import RateLimiter
from horae.ports.workers import Node
from horae.runtime.worker.worker import WorkerSettings
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from horae.testing import Lab
from horae.testing.builders import a_schedule
from horae.testing.clock import VirtualClock
from horae.testing.conformance.support import take
from tests.support.refusals import refused
from tests.support.repairs import repair
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)
OWN = Filter(queue=MACHINERY)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(database_url: str, clock: VirtualClock) -> Iterator[Horae]:
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    with Horae(database_url, clock=clock) as app:
        yield app


@pytest.fixture
def small(clock: VirtualClock) -> Iterator[Horae]:
    """On SQLite in memory, where the database does not matter."""
    with Horae("sqlite://", clock=clock) as app:
        yield app


def sleepy(app: Horae, **options: Any) -> Attention:
    """An agent that waits for an hour, asks before it acts, and says what it heard."""
    agent = Attention("ops", app, **options)

    @agent.control
    def control() -> Control:
        return Control(must_confirm=frozenset({"pay"}), confirm_timeout=HOUR)

    @agent.action(effect="idempotent")
    def pay(step: Any) -> Facts:
        return Facts()

    @agent.cognition("sleepy")
    def sleep(turn: Turn) -> Any:
        heard = [fact.kind for fact in turn.facts if fact.kind != "started"]
        return Done(heard) if heard else Wait("bell", timeout=HOUR)

    @agent.cognition("asks")
    def asks(turn: Turn) -> Any:
        heard = [fact.kind for fact in turn.facts if fact.kind != "started"]
        return Done(heard) if heard else Act("pay")

    return agent


def own_jobs(app: Horae) -> list[Job]:
    return jobs.find(app.world, OWN)


def change(app: Horae, sql: str, **values: Any) -> None:
    with app.engine.begin() as connection:
        connection.execute(text(sql), values)


# -- refused -----------------------------------------------------------------------------------------------------------

VERBS: dict[str, Callable[[Horae, Job], object]] = {
    "cancel": lambda app, job: jobs.cancel(app.world, job.id),
    "reschedule": lambda app, job: jobs.reschedule(app.world, job.id, priority="low"),
    "release": lambda app, job: endings.release(app.world, job.id),
    "revive": lambda app, job: jobs.revive(app.world, job.id),
    "ack": lambda app, job: endings.ack(app.world, job.id, job.token),
    "fail": lambda app, job: endings.fail(app.world, job.id, job.token, "no"),
    "pause": lambda app, _: queues.pause_queue(app.world, MACHINERY),
    "resume": lambda app, _: queues.resume_queue(app.world, MACHINERY),
    "limit": lambda app, _: queues.limit_queue(app.world, MACHINERY, 1),
    "order": lambda app, _: queues.order_queue(app.world, MACHINERY, "run_at"),
    "enqueue": lambda app, _: jobs.enqueue(app.world, Request("work", queue=MACHINERY)),
    "pull": lambda app, _: claims.pull(app.world, worker_id="w", queues=["default", MACHINERY]),
    "schedule": lambda app, _: schedules.create(app.world, a_schedule("s", queue=MACHINERY)),
    "token": lambda app, _: create_token(app.world, owner="a", scopes=["worker"], queues=[MACHINERY]),
    "declare": lambda app, _: app.job("work", queue=MACHINERY)(lambda: None),
    "serve": lambda app, _: app.worker(WorkerSettings(queues={"default": 1, MACHINERY: 5})),
    "limit the rate": lambda app, _: app.limit_rate(MACHINERY, RateLimiter(1, 60)),
    "send alerts": lambda app, _: watch(app, "https://ops.example/", queue=MACHINERY),
}


@pytest.mark.parametrize("verb", VERBS)
def test_nobody_touches_the_jobs_of_horae(small: Horae, verb: str) -> None:
    """A wait without its timeout stays open for ever."""
    agent = sleepy(small)
    agent.add("sleepy")
    agent.run()
    (job,) = own_jobs(small)

    with refused(ReservedQueue, ("job_reserved", "queue_reserved")) as refusal:
        VERBS[verb](small, job)

    assert refusal.value.code == "reserved_queue"
    assert own_jobs(small) == [job]
    assert small.world.store.read(lambda tx: tx.queues.all()) == []


def test_a_refusal_says_what_the_job_keeps_and_what_to_do_instead(small: Horae, clock: VirtualClock) -> None:
    agent = sleepy(small)
    agent.add("sleepy", due_by=clock.now() + HOUR)
    agent.add("sleepy", delay=HOUR)
    agent.run()

    response = list(jobs.each(small.world, jobs.cancel, sorted(job.id for job in own_jobs(small))).values())

    assert "keeps the deadline of task t1. Leave it alone and cancel that task" in response[0]
    assert "keeps the start of task t2. Leave it alone and cancel that task" in response[1]
    assert "keeps the timeout of wait 1. Leave it alone and post what that waits for" in response[2]


def test_one_refusal_among_many_acts_stops_nobody_else(small: Horae) -> None:
    agent = sleepy(small)
    agent.add("sleepy")
    agent.run()
    theirs = jobs.enqueue(small.world, Request("work"))

    response = jobs.each(small.world, jobs.cancel, [own_jobs(small)[0].id, theirs.id])

    assert [answer == "ok" for answer in response.values()] == [False, True]


def test_a_schedule_cannot_be_moved_there_either(small: Horae) -> None:
    schedules.create(small.world, a_schedule("s"))

    with pytest.raises(ReservedQueue):
        schedules.change(small.world, "s", {"queue": MACHINERY})


def test_nobody_takes_the_name_that_keeps_a_timeout_single(small: Horae) -> None:
    with refused(InvalidName, "unique_name_reserved"):
        jobs.enqueue(small.world, Request("work", unique="horae:wait:1"))


def test_a_pause_or_a_limit_of_everything_else_does_not_hold_them(app: Horae, clock: VirtualClock) -> None:
    """Not even one that somebody wrote into the tables."""
    agent = sleepy(app)
    agent.add("sleepy")
    agent.run()
    jobs.enqueue(app.world, Request("work"))
    set_limit(app.world, "global", 1)
    assert len(take(app.world.store, now=clock.now())) == 1
    change(app, "INSERT INTO horae_queues (name, sorting, paused_at) VALUES ('horae', 'priority', 1)")
    change(app, "INSERT INTO horae_limits (name, max_running) VALUES ('queue:horae', 1)")
    clock.advance(HOUR)

    assert machinery.serve_due(app.world, "w") == 1
    assert [task.state for task in agent.snapshot().backlog] == ["ready"]


# -- hidden ------------------------------------------------------------------------------------------------------------


def test_lists_and_counts_hide_them_unless_asked(app: Horae, clock: VirtualClock) -> None:
    agent = sleepy(app, owner="alice")
    agent.add("sleepy", due_by=clock.now() + 2 * HOUR)
    agent.run()
    clock.advance(HOUR)
    agent.run()  # one has ended, one waits
    world = app.world

    assert jobs.find(world) == []
    assert len(jobs.find(world, OWN)) == len(jobs.find(world, Filter(machinery=True))) == 2
    assert (jobs.counts(world), jobs.counts(world, owner="alice")) == ({}, {})
    assert set(jobs.counts(world, queue=MACHINERY)) == set(jobs.counts(world, machinery=True)) == {MACHINERY}
    assert queues.list_queues(world) == queues.list_queues(world, owner="alice") == []
    assert [view.name for view in queues.list_queues(world, machinery=True)] == [MACHINERY]
    assert queues.get_queue(world, MACHINERY).jobs["queued"] == 0
    assert jobs.metrics(world)["jobs_due_count"] == 0
    response = survey(world)
    assert (response.depths, response.waiting, response.by_queue) == ({}, {}, {})
    assert world.store.read(lambda tx: tx.jobs.unfinished("alice", 10)) == 0  # quotas are for jobs of their own
    (waiting,) = [job for job in jobs.find(world, OWN) if job.state == "cancelled"]
    assert jobs.get(world, waiting.id) == waiting


def test_any_worker_counts_as_one_that_serves_them(small: Horae, clock: VirtualClock) -> None:
    agent = sleepy(small)
    agent.add("sleepy")
    agent.run()
    (job,) = own_jobs(small)
    assert "no_worker" in [reason.code for reason in why(small.world, job)]
    node = Node("w", "host", 1, "1", clock.now(), clock.now(), {"mail": 1})
    small.world.store.transact(lambda tx: tx.nodes.put(node))

    assert [reason.code for reason in why(small.world, job)] == ["scheduled"]
    assert queues.get_queue(small.world, MACHINERY).workers == ("w",)


# -- served ------------------------------------------------------------------------------------------------------------


async def test_a_worker_of_other_queues_keeps_the_timeouts(database_url: str) -> None:
    """Whichever queue it serves, and without declaring anything."""
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    with Horae(database_url) as app:
        agent = Attention("ops", app)
        agent.cognition("nap")(lambda turn: Wait("bell", timeout=timedelta(milliseconds=300)))
        agent.add("nap")
        await agent.driver().until_idle()
        assert len(agent.snapshot().waiting) == 1

        async with asyncio.timeout(60), app.running({"mail": 1}) as hosted:
            await eventually(lambda: agent.snapshot().backlog)

        assert [task.state for task in agent.snapshot().backlog] == ["ready"]
        assert hosted.counts == {}
        assert agent.verify().complaints == ()


async def test_a_worker_whose_slots_are_all_taken_keeps_the_timeouts() -> None:
    with Horae("sqlite://") as app:
        agent = Attention("ops", app)
        agent.cognition("nap")(lambda turn: Wait("bell", timeout=timedelta(milliseconds=300)))
        begun, ends = asyncio.Event(), asyncio.Event()

        @app.job("long")
        async def long() -> None:
            begun.set()
            await ends.wait()

        async with asyncio.timeout(60), app.running({"default": 1}):
            long.enqueue()
            long.enqueue()
            await begun.wait()
            agent.add("nap")
            await agent.driver().until_idle()
            await eventually(lambda: agent.snapshot().backlog)
            ends.set()

        assert [task.state for task in agent.snapshot().backlog] == ["ready"]


async def test_the_lab_keeps_them_too(clock: VirtualClock) -> None:
    app = Horae("sqlite://")
    async with Lab(app) as lab:
        agent = sleepy(app)
        agent.add("sleepy")
        await agent.driver().until_idle()
        await lab.advance(HOUR)

        assert [task.state for task in agent.snapshot().backlog] == ["ready"]


def test_one_that_fails_does_not_keep_the_others_waiting(app: Horae, clock: VirtualClock) -> None:
    agent = sleepy(app)
    for _ in range(3):
        agent.add("sleepy")
    agent.run()
    first = own_jobs(app)[-1]
    change(app, "UPDATE horae_waits SET task_id = 999999 WHERE job_id = :job", job=first.number)  # its handler breaks
    clock.advance(HOUR)

    machinery.serve_due(app.world, "w")

    assert len(agent.snapshot().backlog) == 2
    failed = jobs.get(app.world, first.id)
    assert (failed.state, failed.attempt, "AssertionError" in (failed.last_error or "")) == ("queued", 1, True)


# -- found and made again ----------------------------------------------------------------------------------------------


def lost(app: Horae) -> None:
    change(app, "DELETE FROM horae_jobs")
    change(app, "DELETE FROM horae_keys")


def dead(app: Horae) -> None:
    change(app, "UPDATE horae_jobs SET state = 'dead', attempt = 50")
    change(app, "DELETE FROM horae_keys WHERE scope = 'unique'")


def cancelled(app: Horae) -> None:
    """As `horae job cancel` did it before the queue was reserved."""

    def write(tx: Any) -> None:
        for job in tx.jobs.find(OWN, limit=100, before=None):
            tx.jobs.end_waiting(tx.jobs.lock(job.number), reason="by hand", now=app.world.clock.now())

    app.world.store.transact(write)


def elsewhere(app: Horae) -> None:
    """As a driver of an older version plans it, in a queue that somebody has paused."""
    change(app, "UPDATE horae_jobs SET queue = :queue", queue=BEFORE)
    queues.pause_queue(app.world, BEFORE)


LOSSES = pytest.mark.parametrize("lose", [lost, dead, cancelled, elsewhere])


@LOSSES
@pytest.mark.parametrize(("kind", "heard"), [("sleepy", '["timed_out"]'), ("asks", '["timed_out"]')])
def test_a_wait_without_its_job_is_found_and_gets_one(
    app: Horae, clock: VirtualClock, lose: Callable[[Horae], None], kind: str, heard: str
) -> None:
    agent = sleepy(app)
    task = agent.add(kind).task
    agent.run()
    assert not find_missing(app.world)
    assert repair(app.world) == 0
    lose(app)

    response = find_missing(app.world)
    assert response == [f"wait 1 of t1 ({'event' if kind == 'sleepy' else 'confirm'}) has no job that ends it"]
    assert agent.verify().complaints == tuple(response)
    assert repair(app.world) == 1
    assert repair(app.world) == 0
    assert agent.verify().complaints == ()
    clock.advance(HOUR)
    agent.run()
    ended = app.world.store.read(lambda tx: tx.attention.task(task.number))
    assert ended is not None
    assert (ended.state, ended.result) == ("completed", heard)


@LOSSES
def test_a_task_without_the_job_of_its_start_or_deadline_gets_one(
    app: Horae, clock: VirtualClock, lose: Callable[[Horae], None]
) -> None:
    agent = sleepy(app)
    agent.add("sleepy", delay=HOUR)
    agent.add("sleepy", due_by=clock.now() + HOUR / 2)
    lose(app)

    assert find_missing(app.world) == [
        "t1 has no job for its start",
        "t2 has no job for its deadline",
    ]
    assert repair(app.world) == 2
    assert not find_missing(app.world)
    clock.advance(HOUR / 2)
    machinery.serve_due(app.world, "w")
    (second,) = agent.snapshot().backlog
    facts = app.world.store.read(lambda tx: tx.attention.new_facts(second.number))
    assert [fact.kind for fact in facts] == ["started", "deadline_passed"]
    clock.advance(HOUR / 2)
    machinery.serve_due(app.world, "w")
    assert {task.id for task in agent.snapshot().backlog} == {"t1", "t2"}
    assert agent.verify().complaints == ()


def test_a_resting_task_that_lost_its_job_rests_no_longer_than_it_should(app: Horae, clock: VirtualClock) -> None:
    agent = Attention("ops", app)
    agent.cognition("breaks")(lambda turn: 1 / 0)
    agent.add("breaks")
    agent.run()
    lost(app)
    clock.advance(HOUR)

    assert repair(app.world) == 1
    assert machinery.serve_due(app.world, "w") == 1
    assert len(agent.snapshot().backlog) == 1


def test_repairs_at_the_same_moment_make_one_job(app: Horae) -> None:
    agent = sleepy(app)
    for _ in range(3):
        agent.add("sleepy")
    agent.run()
    lost(app)
    gate = Barrier(3)

    def repair_at_once() -> None:
        gate.wait()
        repair(app.world)

    threads = [Thread(target=repair_at_once) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(own_jobs(app)) == 3
    assert agent.verify().complaints == ()


def test_what_is_whole_is_left_alone_in_every_state(app: Horae, clock: VirtualClock) -> None:
    agent = sleepy(app)
    agent.add("sleepy", delay=HOUR)
    agent.add("sleepy", due_by=clock.now() + HOUR)
    agent.add("asks")
    agent.run()
    clock.advance(HOUR)
    assert take(app.world.store, 1, queue=MACHINERY, now=clock.now()) != []  # one is being served just now
    assert repair(app.world) == 0
    clock.advance(HOUR)
    agent.run()
    agent.cancel("t1")

    assert repair(app.world) == 0
    assert agent.verify().complaints == ()


@pytest.mark.parametrize("kind", ["every", "cron"])
def test_a_schedule_that_is_on_and_has_no_next_fire_gets_one(app: Horae, clock: VirtualClock, kind: Any) -> None:
    expression = "60" if kind == "every" else "* * * * *"
    anchor: Any = "finish" if kind == "every" else "start"
    made = schedules.create(app.world, a_schedule("s", expression, kind=kind, anchor=anchor))
    if kind == "every":
        fires.fire_due(app.world)
        assert repair(app.world) == 0  # its job is unfinished
    change(app, "DELETE FROM horae_jobs")
    change(app, "UPDATE horae_schedules SET next_fire_at = NULL, next_due_at = NULL")

    assert find_missing(app.world) == ["schedule s is on and has no next fire"]
    assert repair(app.world) == 1
    found = schedules.get(app.world, "s")
    assert found.next_fire_at == clock.now() + timedelta(minutes=1)
    assert found.version == made.version
    assert [entry.verb for entry in schedules.versions(app.world, "s")] == ["repair", "create"]
    assert repair(app.world) == 0


def test_schedules_that_have_come_to_their_end_are_left_alone(app: Horae, clock: VirtualClock) -> None:
    schedules.create(app.world, a_schedule("once", "2030-01-01T00:00:00Z", kind="once"))
    schedules.create(app.world, a_schedule("spent", "60", kind="every", max_fires=1))
    schedules.create(app.world, a_schedule("ended", ends_at=clock.now() + timedelta(minutes=1)))
    schedules.create(app.world, a_schedule("paused"))
    schedules.create(app.world, a_schedule("off", enabled=False))
    schedules.create(app.world, a_schedule("follows", "", kind="after", after=("once",)))
    schedules.create(app.world, a_schedule("everywhere", mode="ALL_NODES"))
    schedules.pause(app.world, "paused")
    fires.fire_due(app.world)
    clock.advance(timedelta(minutes=5))
    fires.fire_due(app.world)
    change(app, "DELETE FROM horae_jobs")

    assert find_missing(app.world) == []
    assert repair(app.world) == 0


# -- tenants -----------------------------------------------------------------------------------------------------------


def test_the_house_name_in_settings_is_refused_with_advice() -> None:
    from horae.settings import queues_from

    with refused(InvalidInput, "queue_served_anyway", queue="horae"):
        queues_from("mail=2,horae=5")


def test_a_stranger_cannot_come_due_in_somebody_elses_lane(small: Horae, clock: VirtualClock) -> None:
    agent = sleepy(small, owner="alice")
    agent.add("sleepy")
    agent.run()

    with pytest.raises(LookupError):
        inbox.come_due(small.world, "attention.timeout", {"lane": 1, "wait": 1}, owner="mallory")
