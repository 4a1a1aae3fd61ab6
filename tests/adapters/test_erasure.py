"""A person who is erased is found in no table of an adapter and in no export, whoever the agent was that kept it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, StateGraph

from horae.actions.adapters import checkpoints, documents
from horae.actions.audit import seal_all, verify_audit
from horae.actions.governance.erasure import Erased, erase
from horae.actions.governance.proposals import propose
from horae.actions.jobs.claims import claim
from horae.actions.jobs.endings import settle
from horae.actions.jobs.steps import keep_step
from horae.actions.schedules import fires
from horae.adapters.claude import WakeUp, WakeUps
from horae.adapters.langgraph import GraphCognition, HoraeSaver, wait_for
from horae.adapters.openai_agents import HoraeSession
from horae.app import Horae
from horae.attention import Attention
from horae.core.governance.proposals import Proposal
from horae.core.jobs.job import Lease, Outcome
from horae.declare.attend import register
from horae.mcp.here import Here
from horae.mcp.server import agent_server
from horae.ports.adapters import StoredWrite
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.actions.test_erasure import APP, CANARY, CAROL, residue
from tests.mcp.conftest import at as at_server

PERSON = f"person {CANARY}"
LIKES = f'{CANARY} likes "tea" – à la carte'
START_AT = datetime(2026, 11, 17, 14, 22, tzinfo=UTC)


class State(TypedDict):
    text: str


@pytest.fixture
def app(database_url: str) -> Iterator[Horae]:
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    with Horae(database_url, clock=VirtualClock(START_AT)) as app:
        register(app)
        yield app


def graph(saver: HoraeSaver, said: str) -> Any:
    def note(state: State) -> State:
        return {"text": f"{state['text']}: {said}"}

    built = StateGraph(State)
    built.add_node("note", note)
    built.add_edge(START, "note")
    built.add_edge("note", END)
    return built.compile(checkpointer=saver)


def run(saver: HoraeSaver, thread_id: str, said: str) -> None:
    graph(saver, said).invoke({"text": "look"}, {"configurable": {"thread_id": thread_id}})


def told(app: Horae, owner: str) -> Any:
    async def ask() -> None:
        here = Here.for_one(app.world, owner=owner)
        async with at_server(agent_server(here)) as host:
            timing = {"kind": "once", "expr": "2026-11-17T14:25:00Z"}
            await host.call("schedule_create", name=PERSON, goal=f"greet {PERSON}", idempotency_key="k", **timing)

    asyncio.run(ask())


def plant(app: Horae, owner: str) -> WakeUps:
    """Let every kind of adapter keep the words, in the ways in which it does."""
    propose(app.world, Proposal("memory", LIKES, id="mem_1", subject=PERSON), owner=owner, caller=APP)
    run(HoraeSaver(app, owner=owner), "thread-1", LIKES)
    session = HoraeSession(app, "session-1", owner=owner)
    said = (f"I am {PERSON}", "hello")
    asyncio.run(session.add_items([{"role": "user", "content": each} for each in said]))
    documents.put(app.world, owner, "a2a.task", "task-1", {"id": "task-1", "history": [PERSON]})
    stray = StoredWrite("0" * 64, "1" * 32, "2" * 32, 0, "", "text", "msgpack", LIKES.encode())
    checkpoints.put_writes(app.world, owner, [stray])

    async def resume(wake_up: WakeUp) -> str:
        return f"told {wake_up.prompt}"

    wake_ups = WakeUps(app, resume, zone="UTC", owner=owner)
    crons = [
        {"id": "a1", "schedule": "*/2 * * * *", "recurring": True, "prompt": f"Ask {PERSON}"},
        {"id": "b2", "schedule": "every day", "recurring": True, "prompt": f"Ask {PERSON}"},
        {"id": "c3", "schedule": "0 9 * * *", "recurring": True, "prompt": "Is the build green?"},
    ]
    asyncio.run(wake_ups.on_stop({"session_id": "s-1", "hook_event_name": "Stop", "session_crons": crons}))
    told(app, owner)
    return wake_ups


def work(app: Horae, minutes: int, *, leaves: int = 0) -> None:
    """Let time pass and jobs run, but for *leaves* of them."""
    for _ in range(minutes):
        app.world.clock.advance(timedelta(minutes=1))  # type: ignore[attr-defined]
        fires.fire_due(app.world)
        for job in claim(app.world, "default", 10, worker_id="w", lease=timedelta(minutes=1))[leaves:]:
            keep_step(app.world, Lease(job.number, job.token), "ask", {"answer": f"{PERSON} says hello"})
            settle(app.world, [(job, Outcome("succeeded", result=f'{{"answer":"told {PERSON}"}}'))])


def erased(app: Horae, owner: str, **which: Any) -> Erased:
    return erase(app.world, owner=owner, caller=CAROL, **which or {"subject": PERSON})


def test_an_erased_person_is_found_in_no_table_of_an_adapter(app: Horae) -> None:
    """Decision 8 of governance: a planted word is in no table and no export."""
    wake_ups = plant(app, "system")
    work(app, 3)
    fires.fire_due(app.world)
    planted = {each.partition(".")[0] for each in residue(app)}
    assert {"horae_checkpoints", "horae_session_items", "horae_documents", "horae_schedules"} <= planted
    assert {"horae_runs", "horae_ledger"} <= planted

    done = erased(app, "system")

    assert (done.objects, done.conversations, done.unreadable, done.more) == (1, 4, 0, False)
    assert residue(app) == []
    assert [each.id for each in wake_ups.of("s-1")] == ["c3"], "what is about somebody else stays"
    seal_all(app.world)
    assert [each.owner for each in verify_audit(app.world) if each.complaints] == []


def test_the_same_words_of_another_tenant_stay(app: Horae) -> None:
    """Two tenants with one thread id, one session id and one wake-up id."""
    plant(app, "alice")
    run(HoraeSaver(app, owner="bob"), "thread-1", LIKES)
    asyncio.run(HoraeSession(app, "session-1", owner="bob").add_items([{"role": "user", "content": PERSON}]))
    assert HoraeSaver(app, owner="carol").get_tuple({"configurable": {"thread_id": "thread-1"}}) is None

    erased(app, "alice")

    kept = HoraeSaver(app, owner="bob").get_tuple({"configurable": {"thread_id": "thread-1"}})
    assert kept is not None
    assert LIKES in kept.checkpoint["channel_values"]["text"]
    assert len(asyncio.run(HoraeSession(app, "session-1", owner="bob").get_items())) == 1
    assert asyncio.run(HoraeSession(app, "session-1", owner="alice").get_items()) == []
    assert HoraeSaver(app, owner="alice").get_tuple({"configurable": {"thread_id": "thread-1"}}) is None


def test_erasing_one_memory_leaves_conversations_that_name_only_its_subject(app: Horae) -> None:
    propose(app.world, Proposal("memory", LIKES, id="mem_1", subject="tea time"), owner="system", caller=APP)
    run(HoraeSaver(app), "says-it", LIKES)
    run(HoraeSaver(app), "about-it", "a thread about tea time")

    done = erased(app, "system", object_id="mem_1")

    assert done.conversations == 1
    assert HoraeSaver(app).get_tuple({"configurable": {"thread_id": "about-it"}}) is not None


def test_threads_that_cannot_be_searched_are_counted(app: Horae) -> None:
    class Cipher:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "rot", bytes((byte + 1) % 256 for byte in plaintext)

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            return bytes((byte - 1) % 256 for byte in ciphertext)

    propose(app.world, Proposal("memory", LIKES, id="mem_1", subject=PERSON), owner="system", caller=APP)
    run(HoraeSaver(app, serde=EncryptedSerializer(Cipher())), "sealed", LIKES)

    assert (erased(app, "system").unreadable, erased(app, "bob").unreadable) == (1, 0)


def test_a_wake_up_that_runs_meanwhile_is_erased_by_the_next_call(app: Horae) -> None:
    plant(app, "system")
    app.world.clock.advance(timedelta(minutes=3))  # type: ignore[attr-defined]
    fires.fire_due(app.world)
    (job, *others) = claim(app.world, "default", 10, worker_id="w", lease=timedelta(minutes=1))
    settle(app.world, [(each, Outcome("succeeded")) for each in others])
    assert erased(app, "system").more is True
    settle(app.world, [(job, Outcome("succeeded", result=f'"{PERSON}"'))])
    assert erased(app, "system").more is False
    assert residue(app) == []


def test_a_graph_whose_checkpoints_are_gone_fails_and_does_nothing_twice(app: Horae) -> None:
    """Erased or pruned in the middle of a task: to begin anew would pay twice."""
    began: list[int] = []

    def ask(state: State) -> State:
        began.append(1)
        return {"text": wait_for("go", timedelta(hours=1)).kind}

    agent = Attention("ops", app)
    built = StateGraph(State)
    built.add_node("ask", ask)
    built.add_edge(START, "ask")
    agent.cognition("ticket")(GraphCognition(built.compile(checkpointer=HoraeSaver(agent))))
    task = agent.add("ticket", {"text": LIKES}).task
    agent.run()
    propose(app.world, Proposal("memory", LIKES, id="mem_1", subject=PERSON), owner="system", caller=APP)
    erased(app, "system")
    agent.post("go")
    agent.run()

    ended = agent.task(task.id)
    assert (ended.state, "checkpoints" in str(ended.reason), len(began)) == ("failed", True, 1)
    assert residue(app) == []
