"""Calls that are debounced or collected, on every database: nothing is lost, nothing is in two jobs."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.quotas import enqueue_within
from horae.actions.jobs.reasons import why
from horae.actions.jobs.requests import Enqueued, Request
from horae.actions.retention import clean
from horae.core.jobs.gathered_jobs import MOST_BYTES, Collect, Debounce
from horae.core.jobs.job import Job, Outcome
from horae.core.retention import Retention
from horae.errors import InvalidInput, KeyConflict
from horae.ports.world import World
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.stores.conftest import opened

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
LATE = Debounce("30s", max_wait="2m", key="doc:7")
THREE = Collect(3, "5s", key="user:7")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(store_url: str, clock: VirtualClock) -> Iterator[World]:
    store = opened(store_url)
    yield World(store, clock, LoadedDice())
    store.close()


def debounced(world: World, n: int, how: Debounce = LATE, **more: Any) -> Enqueued:
    return jobs.enqueue(world, Request("index", {"n": n}, debounce=how, **more))


def collected(world: World, *values: Any, how: Collect = THREE, **more: Any) -> Enqueued:
    return jobs.enqueue(world, Request("index", {"items": list(values)}, collect=how, **more))


def claim(world: World) -> list[Job]:
    return claims.claim(world, "default", 100, worker_id="w", lease=MINUTE)


def end(world: World, *held: Job) -> None:
    endings.settle(world, [(job, Outcome("succeeded")) for job in held])


def payloads(found: list[Job]) -> list[Any]:
    return [job.payload for job in found]


# -- debounce ----------------------------------------------------------------------------------------------------------


def test_only_the_last_of_many_calls_runs_when_none_came_for_the_span(world: World, clock: VirtualClock) -> None:
    first = debounced(world, 1)
    clock.advance(20 * SECOND)
    second = debounced(world, 2)
    assert (first.id, first.deduplicated, first.gathered, first.run_at) == (second.id, False, 1, NOON + 30 * SECOND)
    assert (second.deduplicated, second.gathered, second.run_at) == (True, 2, NOON + 50 * SECOND)

    clock.advance(20 * SECOND)
    assert claim(world) == []
    clock.advance(10 * SECOND)
    assert payloads(claim(world)) == [{"n": 2}]


def test_a_stream_of_calls_puts_a_job_off_no_longer_than_max_wait(world: World, clock: VirtualClock) -> None:
    made = []
    for n in range(7):
        clock.advance(20 * SECOND)
        made.append(debounced(world, n))

    assert len({each.id for each in made}) == 1
    assert made[-1].run_at == made[0].run_at - 30 * SECOND + 2 * MINUTE
    clock.advance(made[-1].run_at - clock.now())
    assert payloads(claim(world)) == [{"n": 6}]


def test_a_call_that_comes_while_the_job_runs_opens_the_next(world: World, clock: VirtualClock) -> None:
    first = debounced(world, 1)
    clock.advance(MINUTE)
    [held] = claim(world)
    second = debounced(world, 2)
    assert (second.deduplicated, second.id != first.id) == (False, True)

    end(world, held)
    third = debounced(world, 3)
    assert (third.id, third.deduplicated) == (second.id, True)
    clock.advance(MINUTE)
    assert payloads(claim(world)) == [{"n": 3}]


def test_a_job_that_waits_for_its_retry_takes_no_further_call(world: World, clock: VirtualClock) -> None:
    """Its steps may be done for the payload it had."""
    debounced(world, 1)
    clock.advance(MINUTE)
    [held] = claim(world)
    endings.settle(world, [(held, Outcome("failed", error="no"))])

    second = debounced(world, 2)
    clock.advance(timedelta(hours=1))
    assert (second.deduplicated, payloads(claim(world))) == (False, [{"n": 2}, {"n": 1}])


def test_a_cancelled_or_dead_job_takes_no_further_call_and_can_be_revived(world: World, clock: VirtualClock) -> None:
    jobs.cancel(world, debounced(world, 1).id)
    second = debounced(world, 2)
    assert not second.deduplicated
    clock.advance(MINUTE)
    endings.settle(world, [(each, Outcome("failed", error="no", final=True)) for each in claim(world)])
    third = debounced(world, 3)
    assert not third.deduplicated

    assert jobs.revive(world, second.id).state == "queued"
    assert debounced(world, 4).id == third.id


def test_keys_handlers_queues_and_owners_are_told_apart(world: World) -> None:
    made = [
        debounced(world, 1),
        debounced(world, 1, Debounce(30)),
        debounced(world, 1, replace(LATE, key="doc:8")),
        debounced(world, 1, queue="other"),
        debounced(world, 1, owner="ann"),
        jobs.enqueue(world, Request("other", debounce=LATE)),
        jobs.enqueue(world, Request("index", {"items": [1]}, collect=Collect(key="doc:7"))),
    ]

    assert len({each.id for each in made}) == len(made)
    assert debounced(world, 2, owner="ann").id == made[4].id


def test_a_long_key_is_kept_apart_from_another_long_key(world: World) -> None:
    made = [debounced(world, 1, Debounce(30, key="k" * 199 + end_), queue="q" * 90) for end_ in "ab"]
    again = debounced(world, 1, Debounce(30, key="k" * 199 + "a"), queue="q" * 90)

    assert (made[0].id != made[1].id, again.id) == (True, made[0].id)


# -- collect -----------------------------------------------------------------------------------------------------------


def test_all_values_reach_one_job_when_its_time_comes(world: World, clock: VirtualClock) -> None:
    first = collected(world, 1)
    clock.advance(2 * SECOND)
    second = collected(world, "zwei, ]}")
    assert (second.id, second.deduplicated, second.gathered) == (first.id, True, 2)
    assert second.run_at == NOON + 5 * SECOND

    assert claim(world) == []
    clock.advance(3 * SECOND)
    assert payloads(claim(world)) == [{"items": [1, "zwei, ]}"]}]


def test_a_full_collection_starts_at_once_and_the_next_call_opens_another(world: World) -> None:
    made = [collected(world, n) for n in range(4)]

    assert [each.gathered for each in made] == [1, 2, 3, 1]
    assert made[2].run_at == NOON
    assert (made[3].deduplicated, made[3].run_at) == (False, NOON + 5 * SECOND)
    assert payloads(claim(world)) == [{"items": [0, 1, 2]}]


def test_a_call_whose_values_do_not_fit_lets_the_others_start_and_stays_whole(world: World) -> None:
    collected(world, 1, 2)
    second = collected(world, 3, 4)
    more = collected(world, *range(10))

    assert (second.deduplicated, second.gathered, more.gathered) == (False, 2, 10)
    assert payloads(claim(world)) == [{"items": [1, 2]}, {"items": [3, 4]}, {"items": [*range(10)]}]


def test_a_collection_never_grows_beyond_what_a_payload_may_have(world: World) -> None:
    large = "x" * (MOST_BYTES * 2 // 5)
    how = Collect(100, "5s")
    made = [collected(world, large, how=how) for _ in range(3)]

    assert [each.id == made[0].id for each in made] == [True, True, False]
    assert [len(job.payload["items"]) for job in claim(world)] == [2]


def test_many_calls_of_one_enqueue_join_each_other(world: World, clock: VirtualClock) -> None:
    collected(world, "a")
    asked = [Request("index", {"items": [n]}, collect=THREE) for n in range(6)]
    asked.insert(1, Request("plain", {"n": 1}))
    made = jobs.enqueue_many(world, asked)

    assert [each.gathered for each in made] == [2, 0, 3, 1, 2, 3, 1]
    clock.advance(5 * SECOND)
    lists = [job.payload["items"] for job in claim(world) if job.handler == "index"]
    assert lists == [["a", 0, 1], [2, 3, 4], [5]]


def test_a_call_that_is_repeated_by_its_key_is_in_one_collection_once(world: World, clock: VirtualClock) -> None:
    first = collected(world, 1, key="k1")
    again = collected(world, 1, key="k1")
    collected(world, 2, key="k2")
    with pytest.raises(KeyConflict):
        collected(world, 9, key="k1")
    clock.advance(5 * SECOND)
    [held] = claim(world)
    late = collected(world, 2, key="k2")

    assert (again.id, again.deduplicated, late.id, late.deduplicated) == (first.id, True, first.id, True)
    assert held.payload == {"items": [1, 2]}
    end(world, held)
    assert collected(world, 1, key="k1").id == first.id


def test_twins_of_one_enqueue_are_collected_once(world: World, clock: VirtualClock) -> None:
    asked = [Request("index", {"items": [n]}, collect=THREE, key=f"k{n}") for n in (2, 1, 2)]
    made = jobs.enqueue_many(world, asked)
    clock.advance(5 * SECOND)

    assert [each.deduplicated for each in made] == [False, True, True]
    assert payloads(claim(world)) == [{"items": [2, 1]}]


@pytest.mark.parametrize("payload", [None, {}, {"items": []}, {"items": 1}, {"a": [1], "b": [2]}, [1]])
def test_a_call_without_one_list_is_not_collected(world: World, payload: Any) -> None:
    with pytest.raises(InvalidInput):
        jobs.enqueue(world, Request("index", payload, collect=THREE))


# -- both --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"unique": "u"},
        {"delay": MINUTE},
        {"run_at": NOON},
        {"after": ("job_1",)},
        {"object_type": "memory", "object_id": "m", "action": "verify"},
        {"collect": THREE},
    ],
)
def test_what_one_job_of_many_calls_cannot_have_is_refused(world: World, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        debounced(world, 1, **more)


def test_a_transaction_that_is_rolled_back_leaves_the_open_job_as_it_was(world: World, clock: VirtualClock) -> None:
    collected(world, 1)
    engine = world.store.engine  # type: ignore[attr-defined]
    with engine.connect() as connection, connection.begin() as began:
        joined = jobs.enqueue(world, Request("index", {"items": [2]}, collect=THREE), connection=connection)
        assert (joined.gathered, joined.run_at) == (2, NOON + 5 * SECOND)
        began.rollback()
    with engine.begin() as connection:
        jobs.enqueue(world, Request("index", {"items": [3]}, collect=THREE), connection=connection)

    clock.advance(5 * SECOND)
    assert payloads(claim(world)) == [{"items": [1, 3]}]


def test_a_tenant_with_no_room_left_may_join_and_not_open(world: World) -> None:
    def ask(key: str) -> Enqueued:
        asked = Request("index", {"items": [1]}, owner="ann", collect=replace(THREE, key=key))
        return enqueue_within(world, [asked], owner="ann", allowed=1)[0]

    first = ask("a")
    assert ask("a").id == first.id
    with pytest.raises(Exception, match="unfinished"):
        ask("b")


def test_why_says_how_many_are_collected_and_when_it_runs(world: World) -> None:
    collected(world, 1)
    first = why(world, jobs.get(world, collected(world, 2).id))[0]
    assert (first.code, first.facts) == ("gathering", {"run_at": "2030-01-07T12:00:05Z", "count": 2})
    assert first.text == "it collects calls until 2030-01-07T12:00:05Z at the latest; it has 2 values so far"

    other = why(world, jobs.get(world, debounced(world, 1).id))[0]
    assert (other.code, other.reason) == ("gathering", "debounced")


def test_old_names_are_cleaned_up_and_open_ones_are_not(world: World, clock: VirtualClock) -> None:
    first = debounced(world, 1, Debounce("20d"))
    clock.advance(timedelta(days=10))
    assert clean(world, Retention())["horae_keys"] == 0
    assert debounced(world, 2, Debounce("20d")).id == first.id

    jobs.cancel(world, first.id)
    clock.advance(timedelta(days=10))
    assert clean(world, Retention())["horae_keys"] == 1


# -- processes ---------------------------------------------------------------------------------------------------------

CALLER = """
import json, sys
from horae.actions.jobs.jobs import enqueue
from horae.actions.jobs.requests import Request
from horae.clock import SystemClock
from horae.core.jobs.gathered_jobs import Collect, Debounce
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.clock import LoadedDice

url, me, share = sys.argv[1], sys.argv[2], int(sys.argv[3])
world = World(open_store(create_store_engine(url)), SystemClock(), LoadedDice())
sys.stdin.read(1)
for place in range(share):
    many = Request("index", {"items": [f"{me}-{place}"]}, collect=Collect(5, "20ms"))
    print("c", enqueue(world, many).id, f"{me}-{place}", flush=True)
    last = Request("last", {"n": f"{me}-{place}"}, debounce=Debounce("5ms", "50ms"))
    print("d", enqueue(world, last).id, f"{me}-{place}", flush=True)
"""
WORKER = """
import json, sys, threading
from datetime import timedelta
from horae.actions.jobs.claims import claim
from horae.actions.jobs.endings import settle
from horae.clock import SystemClock
from horae.core.jobs.job import Outcome
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.clock import LoadedDice

world, ended = World(open_store(create_store_engine(sys.argv[1])), SystemClock(), LoadedDice()), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(1), ended.set()), daemon=True).start()
while True:
    has_ended = ended.is_set()  # asked first: what comes later is claimed later
    held = claim(world, "default", 10, worker_id="w", lease=timedelta(minutes=1))
    for job in held:
        print(json.dumps([job.handler, job.id, job.payload]), flush=True)
    if held:
        settle(world, [(job, Outcome("succeeded")) for job in held])
    elif has_ended and world.store.read(lambda tx: tx.jobs.unfinished("system", 1)) == 0:
        break
"""


@pytest.mark.slow
def test_calls_of_several_processes_one_of_them_killed_are_each_in_one_job(store_url: str) -> None:
    """Four processes call while one claims; one of the four is killed at a random moment."""
    pipe = subprocess.PIPE
    opened(store_url).close()
    callers = [
        subprocess.Popen([sys.executable, "-c", CALLER, store_url, f"p{n}", "30"], text=True, stdin=pipe, stdout=pipe)
        for n in range(4)
    ]
    for each in callers:
        assert each.stdin is not None
        each.stdin.write("!")
        each.stdin.flush()
    assert callers[0].stdout is not None
    early = [callers[0].stdout.readline() for _ in range(21)]
    callers[0].kill()
    worker = subprocess.Popen([sys.executable, "-c", WORKER, store_url], text=True, stdin=pipe, stdout=pipe)
    early += callers[0].stdout.readlines()  # communicate() would lose what was read ahead of the lines above
    callers[0].wait(60)
    answers = [each.communicate(timeout=120)[0] for each in callers[1:]]
    seen, _ = worker.communicate("!", timeout=120)

    lines = [line.split() for text in ["".join(early), *answers] for line in text.splitlines() if line.count(" ") == 2]
    acknowledged = Counter((kind, value) for kind, _, value in lines)
    ran = [json.loads(line) for line in seen.splitlines()]
    values = Counter(value for handler, _, payload in ran if handler == "index" for value in payload["items"])
    last = {payload["n"] for handler, _, payload in ran if handler == "last"}
    assert [each.returncode for each in callers[1:]] == [0] * 3
    assert set(values.values()) == {1}
    assert {value for kind, value in acknowledged if kind == "c"} <= set(values)
    assert len(values) - sum(kind == "c" for kind, _ in acknowledged) <= 1  # the one whose answer was lost
    in_job = {(job_id, value) for handler, job_id, payload in ran if handler == "index" for value in payload["items"]}
    assert {(job_id, value) for kind, job_id, value in lines if kind == "c"} <= in_job
    assert {job_id for kind, job_id, _ in lines if kind == "d"} <= {job_id for _, job_id, _ in ran}
    assert all(len(payload["items"]) <= 5 for handler, _, payload in ran if handler == "index")
    assert any(value in last for kind, _, value in lines if kind == "d")
