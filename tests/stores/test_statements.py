"""How many statements a verb costs, and what a statement may carry."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from horae.actions.governance.invariants import check_objects
from horae.actions.governance.proposals import propose_many
from horae.actions.jobs import claims, endings
from horae.actions.rules import job_rules
from horae.core.access.callers import Caller
from horae.core.governance.proposals import Proposal
from horae.core.jobs.job import Outcome, settlement
from horae.core.jobs.payloads import encode
from horae.ports.world import World
from horae.stores.databases.driver import Driver
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from horae.testing.conformance.support import put, read_job, take

HANDFUL = 100


@contextmanager
def counting(store: SqlStore) -> Iterator[Callable[[], int]]:
    """Counts what goes through SQLAlchemy and through the driver connections of the hot verbs."""
    answer: list[str] = []

    def heard(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        answer.append(statement)

    event.listen(store.engine, "before_cursor_execute", heard)
    plain = Driver.__dict__
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("rows", "change", "many"):
                patch.setattr(Driver, name, _counted(plain[name], answer))
            yield lambda: len(answer)
    finally:
        event.remove(store.engine, "before_cursor_execute", heard)


def _counted(verb: Any, answer: list[str]) -> Any:
    def call(driver: Driver, sql: str, *given: Any) -> Any:
        answer.append(sql)
        return verb(driver, sql, *given)

    return call


@pytest.mark.parametrize("key", [None, "k"], ids=["plain", "keyed"])
def test_ten_thousand_jobs_are_a_handful_of_statements(store: SqlStore, key: str | None) -> None:
    jobs = [a_new_job({"n": place}, key=key and f"{key}{place}") for place in range(10_000)]

    with counting(store) as statements:
        given = put(store, *jobs)
        asked = statements()

    assert asked < HANDFUL
    assert len(set(given)) == 10_000


def test_ten_thousand_jobs_on_a_callers_connection_are_a_handful_of_statements(store: SqlStore) -> None:
    jobs = [a_new_job({"n": place}) for place in range(10_000)]

    with counting(store) as statements:
        store.transact(lambda tx: store.insert_on(tx.connection, jobs, now=NOON))
        asked = statements()

    assert asked < HANDFUL


def test_large_payloads_in_one_batch_fit_any_packet(store: SqlStore) -> None:
    """MariaDB takes 16 MB in one packet unless configured otherwise."""
    text_of_a_mebibyte = "x" * 1_000_000

    given = put(store, *(a_new_job({"t": text_of_a_mebibyte}) for _ in range(20)))

    assert len(read_job(store, given[-1]).payload["t"]) == 1_000_000


def test_large_results_in_one_batch_fit_any_packet(store: SqlStore) -> None:
    put(store, *(a_new_job() for _ in range(20)))
    result = encode("x" * 1_000_000)
    written = [settlement(job, Outcome("succeeded", result=result), now=NOON, roll=0.5) for job in take(store)]

    assert store.settle(written, now=NOON) == set()
    assert len(read_job(store, written[-1].number).result) == 1_000_000


def test_json_is_stored_byte_for_byte(store: SqlStore) -> None:
    """No database may sort names, drop zeros or turn big numbers into others."""
    raw = '{"b":1.0,"a":[1e2,9007199254740993,"\\u00e9\\/"],"b2":  {}}'
    [number] = put(store, replace(a_new_job(), payload=raw))

    with store.engine.connect() as connection:
        column = store.dialect.json_as_text.format("payload")
        kept = connection.execute(text(f"SELECT {column} FROM horae_jobs WHERE id = {number}")).scalar()
    assert kept == raw


def test_endings_of_many_governed_objects_are_a_handful_of_statements(store: SqlStore) -> None:
    """Objects, versions, jobs, evidence and entries are written together, however many there are."""
    dice = LoadedDice()
    world = World(store, VirtualClock(), dice, rules=job_rules(dice))
    agent = Caller("alice", frozenset({"tasks"}), "agent/bob")
    told = Outcome("succeeded", result=encode({"verdict": "confirmed", "evidence": ["web:1"]}))

    def settled(name: str, count: int) -> int:
        new = [Proposal("memory", f"fact {each}", f"mem_{name}_{each}", evidence=("chat:1",)) for each in range(count)]
        propose_many(world, new, owner="alice", caller=agent)
        with counting(store) as statements:
            due = claims.claim(world, "governance", 90, worker_id="w1", lease=timedelta(minutes=5))
            endings.settle(world, [(job, told) for job in due])
            assert len(due) == count
            return statements()

    few, many = settled("few", 3), settled("many", 90)

    assert many <= few + 10
    assert many < HANDFUL
    assert check_objects(world) == []
