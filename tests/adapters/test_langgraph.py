"""LangGraph on Horae: its own conformance suite for savers, and graphs whose interrupts are actions and waits."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from horae.actions.adapters import checkpoints
from horae.adapters.langgraph import GraphCognition, HoraeSaver, act, wait_for
from horae.app import Horae
from horae.attention import Attention, Control, Facts, Step
from horae.errors import DefinitionError, InvalidInput, InvalidPayload
from horae.ports.adapters import StoredCheckpoint
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.adapters.dying import deaths, kill, process, result_of
from tests.support.refusals import refused


async def test_the_saver_passes_langgraphs_conformance_suite(database_url: str) -> None:
    with Horae(database_url) as app:

        @checkpointer_test(name="HoraeSaver")
        async def saver() -> AsyncIterator[HoraeSaver]:
            yield HoraeSaver(app)

        report = await validate(saver)

    assert report.passed_all(), {name: each.failures for name, each in report.results.items() if each.failures}
    assert [name for name, each in report.results.items() if each.detected] == [each.value for each in Capability]


def test_a_serialiser_that_pickles_is_refused() -> None:
    pickling = JsonPlusSerializer(pickle_fallback=True)
    for serde in (pickling, EncryptedSerializer(None, pickling)):  # type: ignore[arg-type]
        with refused(DefinitionError, "saver_would_pickle"):
            HoraeSaver(Horae("sqlite://"), serde=serde)
    assert not HoraeSaver(Horae("sqlite://")).serde.pickle_fallback  # type: ignore[attr-defined]


class Count(TypedDict):
    n: Annotated[int, operator.add]


def counting(saver: HoraeSaver, state: type[Any] = Count) -> Any:
    builder = StateGraph(state)
    builder.add_node("one", lambda state: {"n": 1})
    builder.add_edge(START, "one")
    builder.add_conditional_edges("one", lambda state: END if state["n"] >= 6 else "one")
    return builder.compile(checkpointer=saver)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def test_idle_threads_are_pruned_to_their_newest_checkpoint() -> None:
    clock = VirtualClock()
    with Horae("sqlite://", clock=clock) as app:
        saver = HoraeSaver(app)
        graph = counting(saver)
        graph.invoke({"n": 0}, thread("old"))
        clock.advance(timedelta(days=3))
        graph.invoke({"n": 0}, thread("new"))

        assert saver.prune_idle(timedelta(days=2)) == 1
        assert len(list(saver.list(thread("old")))) == 1
        assert len(list(saver.list(thread("new")))) == 8
        assert graph.get_state(thread("old")).values == {"n": 6}
        assert saver.prune_idle(timedelta(days=2), strategy="delete") == 1
        assert saver.get_tuple(thread("old")) is None
        with refused(InvalidInput, "choice_unknown", name="strategy"):
            saver.prune(["new"], strategy="keep_none")


def test_pruning_keeps_what_a_channel_of_differences_rests_on() -> None:
    class Deltas(TypedDict):
        n: Annotated[int, DeltaChannel(lambda value, writes: value + sum(writes), int, snapshot_frequency=4)]

    with Horae("sqlite://") as app:
        saver = HoraeSaver(app)
        graph = counting(saver, Deltas)
        graph.invoke({"n": 0}, thread("a"))
        before = len(list(saver.list(thread("a"))))
        saver.prune(["a"])

        assert 1 < len(list(saver.list(thread("a")))) < before
        assert graph.get_state(thread("a")).values == {"n": 6}


def test_a_checkpoint_that_no_database_takes_is_refused_with_its_size() -> None:
    with Horae("sqlite://") as app, refused(InvalidPayload, "too_large", what="checkpoint"):
        HoraeSaver(app).put_writes(
            {"configurable": {"thread_id": "a", "checkpoint_id": "1"}}, [("n", "x" * 16_000_000)], "t"
        )


def test_tenants_do_not_see_each_others_threads() -> None:
    with Horae("sqlite://") as app:
        counting(HoraeSaver(app, owner="alice")).invoke({"n": 0}, thread("a"))

        assert list(HoraeSaver(app, owner="bob").list(None)) == []
        assert len(list(HoraeSaver(app, owner="alice").list(None, limit=3))) == 3


# -- a graph as cognition ------------------------------------------------------------------------------------------


class Ticket(TypedDict, total=False):
    order: str
    refund: Any
    left: Any
    right: Any


def refund(state: Ticket) -> Ticket:
    return {"refund": act("refund", order=state["order"]).for_model()}


def clerk(app: Horae, sent: list[str], *nodes: Any, confirm: bool = False) -> Attention:
    agent = Attention("clerk", app)
    builder = StateGraph(Ticket)
    for node in nodes or (refund,):
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
        builder.add_edge(node.__name__, END)
    graph = builder.compile(checkpointer=HoraeSaver(agent))
    agent.cognition("ticket")(GraphCognition(graph, timeout=timedelta(hours=2)))

    @agent.control
    def control() -> Control:
        asked = frozenset({"refund"}) if confirm else frozenset()
        return Control(must_confirm=asked, confirm_timeout=timedelta(hours=1))

    @agent.action(effect="once", name="refund")
    def pay(step: Step, order: str) -> Facts:
        sent.append(step.key)
        if order == "broken":
            raise RuntimeError("the bank says no")
        return Facts(receipt=f"r-{order}")

    return agent


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(clock: VirtualClock) -> Iterator[Horae]:
    with Horae("sqlite://", clock=clock) as app:
        yield app


def test_what_became_of_an_action_is_the_answer_of_its_interrupt(app: Horae) -> None:
    sent: list[str] = []
    agent = clerk(app, sent)
    agent.add("ticket", {"order": "A-17"})
    agent.run()

    assert result_of(agent)["refund"] == {"outcome": "action_ok", "happened": True, "data": {"receipt": "r-A-17"}}
    assert len(sent) == 1


def test_of_a_failed_action_it_is_not_known_whether_it_happened_and_a_refused_one_did_not(app: Horae) -> None:
    agent = clerk(app, [])
    agent.add("ticket", {"order": "broken"})
    agent.run()
    assert result_of(agent)["refund"]["happened"] is None

    sent: list[str] = []
    careful = clerk(app, sent, confirm=True)
    careful.name = "careful"
    careful.add("ticket", {"order": "B-1"})
    (_, (question,)) = careful.run().waiting[0]
    careful.confirm(question.number, False, actor="user/olga")
    careful.run()
    assert (result_of(careful)["refund"]["happened"], sent) == (False, [])


def test_an_interrupt_without_an_answer_is_answered_by_its_deadline(app: Horae, clock: VirtualClock) -> None:
    def left(state: Ticket) -> Ticket:
        return {"left": interrupt("Is it blue?")}

    agent = clerk(app, [], left)
    agent.add("ticket", {"order": "A-17"})
    (_, (wait,)) = agent.run().waiting[0]
    assert wait.key.startswith("interrupt:")
    clock.advance(timedelta(hours=3))
    agent.run()

    assert result_of(agent)["left"]["kind"] == "timed_out"


def test_answers_find_their_interrupts_and_each_has_its_own_deadline(app: Horae, clock: VirtualClock) -> None:
    def left(state: Ticket) -> Ticket:
        return {"left": wait_for("left", timedelta(hours=1)).kind}

    def right(state: Ticket) -> Ticket:
        answer = wait_for("right", timedelta(hours=4))
        return {"right": [answer.kind, answer.data]}

    agent = clerk(app, [], left, right)
    agent.add("ticket", {"order": "A-17"})
    (_, waits) = agent.run().waiting[0]
    assert sorted(wait.key for wait in waits) == ["left", "right"]
    clock.advance(timedelta(hours=2))
    (_, (later,)) = agent.run().waiting[0]
    assert (later.key, later.deadline - clock.now()) == ("right", timedelta(hours=2))
    agent.post("right", {"by": "alice"})
    agent.run()

    assert result_of(agent) == {"order": "A-17", "left": "timed_out", "right": ["event", {"by": "alice"}]}


def test_a_graph_needs_a_checkpointer_and_a_cancelled_task_ends(app: Horae) -> None:
    with refused(DefinitionError, "graph_without_checkpointer"):
        GraphCognition(StateGraph(Ticket).add_node(refund).add_edge(START, "refund").compile())
    agent = clerk(app, [], confirm=True)
    made = agent.add("ticket", {"order": "A-17"})
    agent.run()
    agent.cancel(made.task.id, graceful=True)
    agent.run()

    assert agent.snapshot().is_idle
    assert not agent.snapshot().waiting


# -- dying ---------------------------------------------------------------------------------------------------------


def story(app: Horae, sent: list[str]) -> Attention:
    def left(state: Ticket) -> Ticket:
        return {"left": wait_for("news", timedelta(hours=1)).kind}

    agent = clerk(app, sent, refund, left)
    agent.add("ticket", {"order": "A-17"}, key="A-17")
    agent.run()
    agent.post("news", {"n": 1}, event_id="only")
    agent.run()
    return agent


@pytest.mark.slow
def test_a_graph_that_dies_around_any_transaction_goes_on_and_pays_at_most_once(tmp_path: Path) -> None:
    sent: list[str] = []
    outcomes = set()
    for where, file in deaths(tmp_path, lambda app: story(app, sent)):
        with process(file, life=1) as app:
            agent = story(app, sent)
            result = result_of(agent)
            assert agent.verify().is_sound, where
        paid = result["refund"]
        assert (len(sent), paid["happened"]) in ((1, True), (1, None), (0, None)), f"{where}: {sent} {paid}"
        assert result["left"] in ("event", "timed_out"), where
        outcomes.add(paid["outcome"])
        sent.clear()
    assert outcomes == {"action_ok", "action_unknown"}


@pytest.mark.slow
def test_a_killed_graph_goes_on(tmp_path: Path) -> None:
    for file in kill(tmp_path, lambda app: story(app, []), 60, 110):
        with process(file, life=1) as app:
            agent = story(app, [])
            assert result_of(agent)["refund"]["outcome"] in ("action_ok", "action_unknown")
            assert agent.snapshot().is_idle


@dataclass
class Order:
    number: str


class Basket(TypedDict, total=False):
    order: Order


def _planted(folder: Path) -> bytes:
    """A value that makes a permissive reader call os.mkdir, as a row that somebody has changed could be."""
    inner = ormsgpack.packb(("os", "mkdir", str(folder)))
    return ormsgpack.packb({"channel_values": {"x": ormsgpack.Ext(0, inner)}})


def test_a_changed_row_cannot_make_a_reader_call_what_it_names(database_url: str, tmp_path: Path) -> None:
    with Horae(database_url) as app:
        migrate(app.engine)
        saver, made = HoraeSaver(app), tmp_path / "called"
        place = checkpoints.place_of("system", "t", "")
        row = StoredCheckpoint(
            place, "1", "system", "t", "", None, None, "msgpack", _planted(made), "{}", app.world.clock.now()
        )
        checkpoints.put(app.world, row)
        with refused(DefinitionError, "checkpoint_type_refused", type="os.mkdir"):
            saver.get_tuple({"configurable": {"thread_id": "t"}})
    assert not made.exists()


def test_classes_of_the_application_are_read_back_where_they_are_named() -> None:
    def graph(saver: HoraeSaver) -> Any:
        builder = StateGraph(Basket)
        builder.add_node("make", lambda state: {"order": Order("A-17")})
        builder.add_edge(START, "make")
        return builder.compile(checkpointer=saver)

    where: Any = {"configurable": {"thread_id": "t"}}
    with Horae("sqlite://") as app:
        migrate(app.engine)
        graph(HoraeSaver(app)).invoke({}, where)
        with refused(DefinitionError, "checkpoint_type_refused", type="tests.adapters.test_langgraph.Order"):
            HoraeSaver(app).get_tuple(where)
        known = HoraeSaver(app, types=[Order]).get_tuple(where)
    assert known is not None
    assert known.checkpoint["channel_values"]["order"] == Order("A-17")
