"""The log and the alerts' questions on every database: the same rows, in the same order."""

from datetime import timedelta

from horae.actions import logs
from horae.actions.jobs import claims, endings, jobs
from horae.actions.schedules import fires, schedules, toggles
from horae.ports.logs import LogFilter
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.builders import a_request, a_schedule
from horae.testing.clock import LoadedDice, VirtualClock

MINUTE = timedelta(minutes=1)


def test_the_log_reads_alike_everywhere(store: SqlStore) -> None:
    clock = VirtualClock()
    world = World(store, clock, LoadedDice())
    schedules.create(world, a_schedule())
    names = []
    for _ in range(3):
        clock.advance(MINUTE)
        fires.fire_due(world)
        [job] = claims.pull(world, worker_id="w")
        endings.ack(world, job.id, job.token)
        names.append(job.run_id)
    fires.trigger(world, "minutely")
    [running] = claims.pull(world, worker_id="w")

    answer = logs.page(world)
    assert [each.run.id for each in answer] == [running.run_id, *reversed(names)]
    assert [each.trigger for each in answer] == ["manual", "schedule", "schedule", "schedule"]
    assert (answer[0].run.outcome, answer[0].key, answer[1].run.outcome) == ("running", "minutely", "succeeded")
    assert [each.run.id for each in logs.page(world, before=logs.run_name(names[1]))] == [names[0]]
    assert logs.count(world, LogFilter(outcomes=("succeeded",), started_after=clock.now() - MINUTE)) == 2
    assert logs.get(world, running.run_id) == answer[0]

    clock.advance(MINUTE)
    assert logs.clean(world, clock.now()).removed == 3
    assert logs.clean(world, clock.now(), dry_run=False).removed == 3
    assert [each.run.id for each in logs.page(world)] == [running.run_id]


def test_a_toggle_is_found_everywhere(store: SqlStore) -> None:
    world = World(store, VirtualClock(), LoadedDice())
    schedules.create(world, a_schedule())
    schedules.create(world, a_schedule("other"))

    toggles.switch(world, "other", False, ephemeral=True)

    assert [each.key for each in schedules.find(world, ScheduleFilter(toggled=True))] == ["other"]
    assert [each.key for each in schedules.find(world, ScheduleFilter(enabled=True, toggled=False))] == ["minutely"]


def test_what_waits_and_what_died_is_found_everywhere(store: SqlStore) -> None:
    clock = VirtualClock()
    world = World(store, clock, LoadedDice())
    jobs.enqueue_many(world, [a_request(queue=queue) for queue in ("alone", "alone", "busy", "busy", "served")])
    claims.pull(world, worker_id="w", queues=["busy"], limit=1)
    [doomed] = claims.pull(world, worker_id="w", queues=["served"])
    endings.fail(world, doomed.id, doomed.token, "no", final=True)
    clock.advance(MINUTE)

    [waiting] = store.read(lambda tx: tx.jobs.waiting(clock.now(), not_in=["served"]))
    assert (waiting.queue, waiting.count, waiting.oldest) == ("alone", 2, clock.now() - MINUTE)
    assert store.read(lambda tx: tx.jobs.waiting(clock.now() - MINUTE, not_in=[])) == []
    assert [job.id for job in store.read(lambda tx: tx.jobs.died(clock.now() - MINUTE, limit=5))] == [doomed.id]
    assert store.read(lambda tx: tx.jobs.died(clock.now(), limit=5)) == []


def test_the_audit_is_narrowed_alike_everywhere(store: SqlStore) -> None:
    world = World(store, VirtualClock(), LoadedDice())
    schedules.create(world, a_schedule(owner="alice"), actor="ann")
    schedules.pause(world, "minutely", owner="alice", actor="bob")

    def verbs(**wanted: str) -> list[str]:
        answer = {"object_id": None, **wanted}
        found = store.read(lambda tx: tx.audit.find(limit=9, before=None, **answer))
        return [entry.verb for _, entry in found]

    assert verbs() == ["pause", "create"]
    assert verbs(actor="ann") == verbs(verb="create") == ["create"]
    assert verbs(owner="system") == verbs(object_type="queue") == []


def test_whose_last_fire_led_to_no_run_is_found_everywhere(store: SqlStore) -> None:
    """C-22: a fire while the job before it still runs; document 003 calls it SKIPPED."""
    clock = VirtualClock()
    world = World(store, clock, LoadedDice())
    made = [schedules.create(world, a_schedule(key)).number for key in ("busy", "idle")]
    for _ in range(2):
        clock.advance(MINUTE)
        fires.fire_due(world)
        for job in claims.pull(world, worker_id="w"):
            if job.schedule_id == made[1]:
                endings.ack(world, job.id, job.token)

    assert store.read(lambda tx: tx.schedules.skipped(made)) == {made[0]}
    assert store.read(lambda tx: tx.schedules.skipped([])) == set()
