"""Every operation of the attention room, through all four senders: equal values, equal errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from horae.actions.attention import lanes as lane_verbs
from horae.actions.attention import queries, turns
from horae.api.attention import values as public
from horae.api.attention.values import (
    AddedTask,
    Confirmation,
    JournalEntry,
    LaneControl,
    LaneDetail,
    PastLane,
    PostedEvent,
    TaskDetail,
    VerifiedJournal,
    Wait,
)
from horae.core.attention import lanes as core
from horae.core.attention.directives import Act, Directive
from horae.core.attention.directives import Wait as WaitFor
from horae.core.attention.task import Control, Policy
from horae.errors import Conflict, Forbidden, InvalidInput, InvalidName, NotFound
from tests.api.conftest import Sent
from tests.support.governed import keep
from tests.support.refusals import refused
from tests.support.serving import Served

LATER = datetime(2040, 1, 7, 6, tzinfo=UTC)
names = (f"agent{number}" for number in count())
Decide = Callable[[str, Directive], None]


@pytest.fixture
def lane() -> str:
    """A lane of this test alone."""
    return next(names)


@pytest.fixture
def decide(served: Served) -> Decide:
    """Decide one turn of alice's agent, as its driver; refunds need a person's word."""

    def turn(lane: str, directive: Directive) -> None:
        control, policy = Control(must_confirm=frozenset({"refund"})), Policy()
        drive = lane_verbs.acquire(served.world, lane, "test", owner="alice", lease=timedelta(minutes=5))
        assert drive is not None
        think = turns.next_work(served.world, drive, control, policy)
        assert isinstance(think, turns.Think)
        turns.commit_turn(served.world, drive, think, directive, policy=policy, effects={"refund": "once"})
        lane_verbs.let_go(served.world, drive)

    return turn


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_a_task_is_kept_as_it_was_asked_for(rooms: Sent, lane: str) -> None:
    made = rooms.alice.attention.add(
        lane, "report", {"day": 7}, priority=60, key="r:7", start_at=LATER, due_by=LATER, expires_at=LATER
    )

    task = rooms.alice.attention.task(lane, made.id)

    assert isinstance(made, AddedTask)
    assert type(task) is TaskDetail
    assert AddedTask(**vars(task)) == made
    assert (task.kind, task.payload, task.priority, task.key) == ("report", {"day": 7}, 60, "r:7")
    assert (task.start_at, task.due_by, task.expires_at) == (LATER, LATER, LATER)
    assert (task.state, task.context, task.result, task.turn, task.phase) == ("created", None, None, 0, "think")


def test_the_same_key_is_the_same_task_and_another_payload_is_refused(rooms: Sent, lane: str) -> None:
    first = rooms.alice.attention.add(lane, "report", 7, key="r:7")
    again = rooms.alice.attention.add(lane, "report", 7, key="r:7")
    with refused(Conflict, "task_key_taken"):
        rooms.alice.attention.add(lane, "report", 8, key="r:7")

    assert (first.deduplicated, again) == (False, replace(first, deduplicated=True))


def test_a_task_may_begin_after_a_while_but_not_in_two_ways(rooms: Sent, lane: str) -> None:
    spans = (timedelta(hours=1), 3600)
    made = [rooms.alice.attention.add(lane, "report", delay=span) for span in spans]
    with refused(InvalidInput, "start_at_and_delay"):
        rooms.alice.attention.add(lane, "report", delay=60, start_at=LATER)

    assert [each.state for each in made] == ["created", "created"]
    assert all(each.start_at is not None and each.start_at > datetime.now(UTC) for each in made)


def test_tasks_are_listed_by_state_page_by_page(rooms: Sent, lane: str) -> None:
    ids = [rooms.alice.attention.add(lane, "report").id for _ in range(5)]
    rooms.alice.attention.cancel(lane, ids[1], reason="not needed")

    ready = rooms.alice.attention.tasks(lane, state="ready")
    first = ready.page(limit=3)
    rest = ready.page(first.next_cursor, limit=3)

    assert [each.id for each in (*first.items, *rest.items)] == [ids[4], ids[3], ids[2], ids[0]]
    assert rest.next_cursor is None
    assert [each.id for each in rooms.alice.attention.tasks(lane, limit=2)] == [ids[4], ids[3]]
    (gone,) = rooms.alice.attention.tasks(lane, state=["cancelled", "failed"])
    assert (type(gone), gone.id, gone.reason) == (public.Task, ids[1], "not needed")
    with refused(InvalidInput, "cursor_invalid"):
        rooms.alice.attention.tasks(lane).page("nonsense")
    with refused(InvalidInput, "choice_unknown"):
        rooms.alice.attention.tasks(lane, state="happy").page()


def test_a_task_is_cancelled_twice_and_killed_by_an_operator_alone(rooms: Sent, lane: str) -> None:
    first, second = (rooms.alice.attention.add(lane, "report").id for _ in range(2))
    with refused(Forbidden, "scope_missing"):
        rooms.alice.attention.kill(lane, first)

    cancelled = [rooms.alice.attention.cancel(lane, first, graceful=True) for _ in range(2)]
    killed = rooms.house.attention.kill(lane, second, reason="hangs", owner="alice")

    assert [each.state for each in cancelled] == ["cancelled", "cancelled"]
    assert (type(killed), killed.state, killed.reason) == (TaskDetail, "cancelled", "hangs")


# -- lanes -------------------------------------------------------------------------------------------------------------


def test_a_lane_shows_what_it_holds(rooms: Sent, lane: str, decide: Decide) -> None:
    waiting = rooms.alice.attention.add(lane, "sleep", priority=90)
    decide(lane, WaitFor("ack", timedelta(minutes=10)))
    backlog = [rooms.alice.attention.add(lane, "report", priority=priority).id for priority in (20, 80)]
    created = rooms.alice.attention.add(lane, "report", start_at=LATER)

    seen = rooms.alice.attention.get(lane)
    few = rooms.alice.attention.get(lane, limit=1)

    assert isinstance(seen, LaneDetail)
    assert (seen.lane.name, seen.lane.owner, seen.lane.driver, seen.lane.epoch) == (lane, "alice", None, 1)
    assert (seen.focus, seen.stack, [each.id for each in seen.backlog]) == (None, (), backlog[::-1])
    assert [each.id for each in seen.created] == [created.id]
    assert [(each.task.id, each.waits) for each in seen.waiting] == [(waiting.id, rooms.alice.attention.waits(lane))]
    assert seen.counts == public.LaneCounts(suspended=0, ready=2, waiting=1, created=1)
    assert (seen.control, len(few.backlog), few.counts) == (LaneControl(), 1, seen.counts)
    assert seen.lane == next(each for each in rooms.alice.attention.lanes() if each.name == lane)
    with pytest.raises(InvalidInput):
        rooms.alice.attention.get(lane, limit=0)


def test_lanes_are_listed_page_by_page_and_an_operator_sees_all(rooms: Sent, lane: str) -> None:
    rooms.alice.attention.add(lane, "report")
    rooms.house.attention.add(lane, "report")

    every = list(rooms.house.attention.lanes())
    first = rooms.house.attention.lanes().page(limit=1)
    second = rooms.house.attention.lanes().page(first.next_cursor, limit=1)

    assert [*first.items, *second.items] == every[:2]
    assert [each.owner for each in every if each.name == lane] == ["alice", "system"]
    assert {each.owner for each in rooms.house.attention.lanes(owner="system")} == {"system"}
    assert {each.owner for each in rooms.alice.attention.lanes()} == {"alice"}
    with refused(InvalidInput, "out_of_range"):
        rooms.house.attention.lanes().page(limit=1001)


def test_a_lane_that_is_not_there_is_not_found_and_not_made(rooms: Sent, lane: str) -> None:
    hers = rooms.alice.attention
    looks: list[Callable[[], Any]] = [
        lambda: hers.get(lane), lambda: hers.tasks(lane).page(), lambda: hers.task(lane, "t1"),
        lambda: hers.waits(lane), lambda: hers.confirmations(lane), lambda: hers.journal(lane).page(),
        lambda: hers.verify(lane), lambda: hers.at(lane, 0), lambda: next(hers.follow(lane)),
        lambda: hers.cancel(lane, "t1"),
        lambda: rooms.house.attention.kill(lane, "t1"), lambda: rooms.house.attention.control(lane),
        lambda: rooms.house.attention.confirm(lane, 1, True),
        lambda: hers.get(lane, owner="bob"), lambda: hers.add(lane, "report", owner="bob"),
    ]  # fmt: skip
    for look in looks:
        with pytest.raises(NotFound):
            look()
    assert lane not in {each.name for each in rooms.house.attention.lanes()}


def test_what_cannot_be_an_address_is_refused(rooms: Sent, lane: str) -> None:
    hers = rooms.alice.attention
    for wrong in ("two words", f"{lane}/tasks", ""):
        with pytest.raises(InvalidName):
            hers.get(wrong)
    with refused(InvalidInput, "task_id_malformed"):
        hers.task(lane, "12")
    with refused(InvalidInput, "task_id_malformed"):
        hers.journal(lane, task="12").page()
    with refused(InvalidInput, "out_of_range"):
        rooms.house.attention.confirm(lane, 0, True)
    with refused(InvalidInput, "out_of_range"):
        hers.journal(lane, since=-1).page()


# -- events and confirmations ------------------------------------------------------------------------------------------


def test_an_event_wakes_who_waits_for_it_or_is_kept(rooms: Sent, lane: str, decide: Decide) -> None:
    task = rooms.alice.attention.add(lane, "sleep").id
    decide(lane, WaitFor("ack", timedelta(minutes=10)))
    (wait,) = rooms.alice.attention.waits(lane)

    used = rooms.alice.attention.post(lane, "ack", {"by": "bob"}, event_id=f"{lane}-1")
    again = rooms.alice.attention.post(lane, "ack", {"by": "bob"}, event_id=f"{lane}-1")
    kept = rooms.alice.attention.post(lane, "later")

    assert isinstance(wait, Wait)
    assert (wait.task, wait.key, wait.kind, wait.state, wait.action, wait.arguments) == (
        task, "ack", "event", "open", None, {},
    )  # fmt: skip
    assert isinstance(used, PostedEvent)
    assert (used.key, used.event_id, used.state, used.task) == ("ack", f"{lane}-1", "used", task)
    assert (used.deduplicated, again) == (False, replace(used, deduplicated=True))
    assert (kept.state, kept.task, kept.event_id, kept.deduplicated) == ("pending", None, None, False)
    assert rooms.alice.attention.task(lane, task).state == "ready"
    with refused(InvalidInput, "label_unreadable"):
        rooms.alice.attention.post(lane, "two\nlines")


def test_only_an_operator_answers_and_the_first_answer_counts(rooms: Sent, lane: str, decide: Decide) -> None:
    task = rooms.alice.attention.add(lane, "refund").id
    decide(lane, Act("refund", {"amount": 40}))
    (asked,) = rooms.alice.attention.confirmations(lane)
    with refused(Forbidden, "scope_missing"):
        rooms.alice.attention.confirm(lane, asked.id, True)

    answered = [rooms.house.attention.confirm(lane, asked.id, True, reason="called", owner="alice") for _ in range(2)]
    with refused(Conflict, "confirmation_decided"):
        rooms.house.attention.confirm(lane, asked.id, False, owner="alice")

    assert isinstance(asked, Confirmation)
    assert asked.cites == ()
    assert (asked.task, asked.task_kind, asked.action, asked.arguments) == (task, "refund", "refund", {"amount": 40})
    assert (asked.kind, asked.approved, asked.decided_by) == ("confirm", None, None)
    assert answered[0] == answered[1]
    assert (answered[0].approved, answered[0].intent_hash) == (True, asked.intent_hash)
    assert answered[0].decided_by is not None
    assert rooms.alice.attention.confirmations(lane) == ()


def test_a_confirmation_is_found_by_its_number_alone_in_the_callers_own_lanes(
    rooms: Sent, served: Served, lane: str, decide: Decide
) -> None:
    rooms.alice.attention.add(lane, "refund")
    decide(lane, Act("refund", {"amount": 40}))
    (asked,) = rooms.alice.attention.confirmations(lane)

    seen = [each.attention.confirmation(asked.id) for each in (rooms.alice, rooms.house)]
    assert (seen[0].lane, seen[0].owner, seen[0].action, seen[0].task_kind) == (lane, "alice", "refund", "refund")
    assert seen[0] == seen[1] == public.LaneConfirmation(**vars(asked), lane=lane, owner="alice")
    rooms.house.attention.confirm(seen[1].lane, asked.id, True, owner=seen[1].owner)
    assert rooms.alice.attention.confirmation(asked.id).approved is True
    with refused(NotFound, "confirmation_number_unknown"):
        rooms.house.attention.confirmation(asked.id + 10**9)
    with refused(NotFound, "confirmation_number_unknown"):
        queries.confirmation(served.world, asked.id, owner="bob")


def test_arguments_of_any_name_and_cites_are_shown_to_the_person(
    rooms: Sent, served: Served, lane: str, decide: Decide
) -> None:
    rooms.alice.attention.add(lane, "refund")
    given = {"note": "n", "context": {"a": 1}, "interruptible": "no", "cites": ["x"]}
    name = f"mem_{lane}"
    keep(served.world, name, risk="high", state="stale")
    decide(lane, Act("refund", arguments=given, cites=[f"memory:{name}"]))

    (asked,) = rooms.alice.attention.confirmations(lane)

    assert (asked.arguments, asked.cites) == (given, (f"memory:{name}",))
    assert asked.why == (f"memory:{name} is stale, not active",)
    (parked,) = [line for line in rooms.alice.attention.journal(lane) if line.cause == "parked"]
    assert (parked.details["cites"], parked.details["why"]) == ([f"memory:{name}"], list(asked.why))


def test_an_answer_that_nobody_needs_any_more_is_a_conflict(rooms: Sent, lane: str, decide: Decide) -> None:
    task = rooms.alice.attention.add(lane, "refund").id
    decide(lane, Act("refund", {"amount": 40}))
    (asked,) = rooms.alice.attention.confirmations(lane)
    rooms.alice.attention.cancel(lane, task)

    with refused(Conflict, "confirmation_not_needed"):
        rooms.house.attention.confirm(lane, asked.id, True, owner="alice")


def test_control_replaces_what_was_forbidden(rooms: Sent, lane: str) -> None:
    rooms.alice.attention.add(lane, "report")
    with refused(Forbidden, "scope_missing"):
        rooms.alice.attention.control(lane, auto_continue=False)

    narrowed = rooms.house.attention.control(
        lane, auto_continue=False, must_confirm=["refund", "page"], reason="release day", owner="alice"
    )
    seen = rooms.alice.attention.get(lane).control
    lifted = rooms.house.attention.control(lane, owner="alice")

    assert narrowed == LaneControl(auto_continue=False, must_confirm=("page", "refund"))
    assert (seen, lifted) == (narrowed, LaneControl())
    with refused(InvalidInput, "label_unreadable"):
        rooms.house.attention.control(lane, must_confirm=["a\n"], owner="alice")


# -- the journal -------------------------------------------------------------------------------------------------------


def test_a_journal_is_read_page_by_page_verified_and_travelled(rooms: Sent, lane: str) -> None:
    first, second = (rooms.alice.attention.add(lane, "report").id for _ in range(2))

    whole = list(rooms.alice.attention.journal(lane))
    page = rooms.alice.attention.journal(lane, since=1).page(limit=2)
    rest = rooms.alice.attention.journal(lane, since=1).page(page.next_cursor, limit=2)
    past = rooms.alice.attention.at(lane, 1)

    assert [(type(each), each.seq) for each in whole] == [(JournalEntry, seq) for seq in (1, 2, 3, 4)]
    assert ([*page.items, *rest.items], rest.next_cursor) == (whole[1:], None)
    assert (whole[0].cause, whole[0].task, whole[0].before, whole[0].after) == ("added", first, None, "created")
    assert {each.task for each in rooms.alice.attention.journal(lane, task=second)} == {second}
    assert rooms.alice.attention.verify(lane) == VerifiedJournal(lane=lane, sound=True, lines=4, sealed=4)
    assert isinstance(past, PastLane)
    assert (past.seq, list(past.tasks), past.tasks[first]["state"]) == (1, [first], "created")
    with refused(InvalidInput, "journal_line_unknown"):
        rooms.alice.attention.at(lane, 999)


def test_a_journal_is_followed_while_it_is_written(rooms: Sent, lane: str) -> None:
    rooms.alice.attention.add(lane, "report")
    written = rooms.alice.attention.follow(lane, since=1)
    heard = [next(written)]
    rooms.alice.attention.add(lane, "report")
    heard += [next(written), next(written)]
    written.close()

    assert heard == list(rooms.alice.attention.journal(lane, since=1))


# -- what is shown -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (core.Lane, public.Lane),
        (core.Task, public.TaskDetail),
        (core.TaskWait, public.Wait),
        (core.Event, public.Event),
        (core.Line, public.JournalEntry),
    ],
)
def test_every_stored_field_is_public_or_hidden_on_purpose(stored: Any, shown: Any) -> None:
    name = stored.__name__
    known = {each.name for each in fields(shown)}
    kept = {each.name for each in fields(stored)}
    renamed = public.RENAMED[name]

    assert kept - known - set(renamed) == public.HIDDEN[name]
    assert set(renamed) <= kept
    assert set(renamed.values()) <= known


# -- lanes in numbers, and the story of a task ------------------------------------------------------------------------


def test_the_overview_has_every_lane_in_numbers(rooms: Sent, lane: str, decide: Decide) -> None:
    rooms.alice.attention.add(lane, "refunds", priority=90)
    decide(lane, Act("refund", arguments={"amount": 40}))
    backlog = rooms.alice.attention.add(lane, "report")

    seen = next(each for each in rooms.alice.attention.overview() if each.lane.name == lane)

    assert isinstance(seen, public.LaneSummary)
    assert (seen.focus, seen.counts) == (None, public.LaneCounts(ready=1, waiting=1))
    assert (seen.waits, seen.confirmations) == (1, 1)
    assert (seen.last_cause, seen.last_task) == ("admitted", backlog.id)
    assert seen.last_at is not None
    first = rooms.house.attention.overview().page(limit=1)
    second = rooms.house.attention.overview().page(first.next_cursor, limit=1)
    assert [each.lane for each in (*first.items, *second.items)] == list(rooms.house.attention.lanes(limit=2))
    assert {each.lane.owner for each in rooms.alice.attention.overview()} == {"alice"}


def test_the_story_of_a_task_has_its_waits_and_what_it_was_told_and_no_secret(
    rooms: Sent, lane: str, decide: Decide
) -> None:
    task = rooms.alice.attention.add(lane, "sleep", {"goal": "rest", "api_key": "hush"})
    decide(lane, WaitFor("ack", timedelta(minutes=10), context={"password": "hush", "seen": 1}))
    rooms.alice.attention.post(lane, "ack", {"by": "bob", "token": "hush"})

    story = rooms.alice.attention.story(lane, task.id)
    few = rooms.alice.attention.story(lane, task.id, limit=1)

    assert isinstance(story, public.TaskStory)
    assert story.task == rooms.alice.attention.task(lane, task.id)
    assert (story.task.payload["api_key"], story.task.context) == ("[masked]", {"password": "[masked]", "seen": 1})
    assert [(each.key, each.state, each.closed_at is not None) for each in story.waits] == [("ack", "event", True)]
    assert [each.kind for each in story.facts] == ["event", "started"]
    assert (story.facts[0].data, story.facts[0].about["key"]) == ({"by": "bob", "token": "[masked]"}, "ack")
    assert [each.turn for each in story.facts] == [None, 1]
    assert len(few.facts) == 1
    with refused(NotFound, "task_unknown"):
        rooms.alice.attention.story(lane, "t999999")


def test_a_grant_is_told_to_the_agent_alone(rooms: Sent, lane: str, decide: Decide) -> None:
    task = rooms.alice.attention.add(lane, "refunds")
    decide(lane, Act("refund", arguments={"amount": 40}))
    (asked,) = rooms.alice.attention.confirmations(lane)
    rooms.house.attention.confirm(lane, asked.id, True, owner="alice")

    told = rooms.alice.attention.story(lane, task.id).facts[0]

    assert (told.kind, told.data["action"], told.data["grant"]) == ("confirmed", "refund", "[masked]")
