"""Document 001's words into schedules and back: every rule of S1 and its resolution, without a store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horae.core.jobs.job import Run
from horae.core.jobs.retry import Retry
from horae.core.outgoing.targets import Rules
from horae.core.scheduled_tasks.rules import EVERY_MINUTE, apply_shortest_interval
from horae.core.scheduled_tasks.task import (
    RETRY,
    Facts,
    Plan,
    Terms,
    Wish,
    blank,
    check_payload,
    id_for,
    is_task_id,
    plan,
)
from horae.core.schedules.schedule import Schedule, first_fire
from horae.errors import (
    HoraeError,
    IntervalRefused,
    InvalidCron,
    InvalidInput,
    InvalidPayload,
    NeverFires,
    UnknownZone,
)
from horae.testing.builders import a_job
from horae.testing.clock import NOON
from tests.support.refusals import refused

MINUTE = timedelta(minutes=1)
TASK = id_for("alice", "k")
TEXT = {"text": "hello"}


def wished(before: Schedule | Facts | None = None, terms: Terms | None = None, **wish: Any) -> Plan:
    """What becomes of a new task, or of one that is there."""
    start = blank(TASK, "alice") if before is None else before
    facts = start if isinstance(start, Facts) else Facts(start)
    if before is None:
        wish.setdefault("payload", TEXT)
    return plan(facts, Wish(**wish), terms or Terms(), Rules(), NOON)


def stored(**wish: Any) -> Schedule:
    """A task as a store would give it back."""
    made = wished(**wish)
    first = made.first if made.schedule.is_active else None
    return replace(made.schedule, number=7, created_at=NOON, updated_at=NOON, next_fire_at=first)


# -- what a new task is ------------------------------------------------------------------------------------------


def test_a_task_is_a_cron_of_every_minute_in_utc_unless_it_says_otherwise() -> None:
    """S1-5, S1-30, C-3, C-29: an empty expression means every minute, with a warning."""
    made = wished()

    result = made.schedule
    assert (result.kind, result.expression, result.zone, result.enabled) == ("cron", EVERY_MINUTE, "UTC", True)
    assert (result.title, result.handler, result.retry) == ("Scheduled Task", "dispatch", RETRY)
    assert tuple(each.text for each in made.warnings) == (
        "schedule_expr is empty; the task runs every minute (* * * * *).",
    )
    assert made.arms


def test_retries_are_sixty_seconds_apart_and_have_an_end() -> None:
    """S1-28, C-11, C-30."""
    assert Retry.fixed(60, attempts=RETRY.attempts) == RETRY
    assert 1 < RETRY.attempts < 100


@pytest.mark.parametrize("name", ["", "   ", "\n"])
def test_a_blank_name_is_scheduled_task(name: str) -> None:
    assert wished(name=name, schedule_expr="0 9 * * *").schedule.title == "Scheduled Task"


@pytest.mark.parametrize(("expr", "seconds"), [("60", "60"), (60, "60"), (" +90 ", "90"), ("0060", "60"), (10, "10")])
def test_an_interval_counts_from_now(expr: str | int, seconds: str) -> None:
    """S1-29: after + seconds; integers are as good as text."""
    made = wished(schedule_type="interval", schedule_expr=expr)

    assert (made.schedule.kind, made.schedule.expression) == ("every", seconds)
    assert made.first == made.schedule.starts_at == NOON + timedelta(seconds=int(seconds))
    assert made.warnings == ()


@pytest.mark.parametrize("expr", [0, "0", "-5", -1])
def test_an_interval_of_nothing_is_a_minute_with_a_warning(expr: str | int) -> None:
    """S1-29."""
    made = wished(schedule_type="interval", schedule_expr=expr)

    assert made.schedule.expression == "60"
    assert len(made.warnings) == 1


@pytest.mark.parametrize("expr", [9, "1", "abc", "", "1.5", "1e3", "6_0", "٦٠", 10**12, None])
def test_an_interval_that_is_too_short_or_no_number_is_refused(expr: str | int | None) -> None:
    """S1-32."""
    with pytest.raises(InvalidInput):
        wished(schedule_type="interval", schedule_expr=expr)


def test_the_shortest_interval_is_the_operators() -> None:
    terms = Terms(shortest=timedelta(seconds=300))

    with refused(InvalidInput, "task_interval_too_short", least=300):
        wished(terms=terms, schedule_type="interval", schedule_expr=299)
    assert wished(terms=terms, schedule_type="interval", schedule_expr=0).schedule.expression == "300"


def test_a_task_that_is_sent_back_as_it_was_read_is_taken_although_the_minimum_was_raised_since() -> None:
    """S1-32: it keeps its own interval on record and runs at the least one (S1-29)."""
    before = stored(schedule_type="interval", schedule_expr=20)
    terms = Terms(shortest=timedelta(seconds=300))

    made = wished(before, terms=terms, name="renamed", schedule_type="interval", schedule_expr="20")

    assert (made.schedule.title, made.schedule.expression) == ("renamed", "20")
    with pytest.raises(IntervalRefused):
        wished(before, terms=terms, schedule_expr="30")


def test_enabling_a_task_whose_interval_became_too_short_counts_from_the_least_interval() -> None:
    """S1-29."""
    before = replace(stored(schedule_type="interval", schedule_expr=20, enabled=False), starts_at=NOON - MINUTE)

    made = wished(before, terms=Terms(shortest=timedelta(seconds=300)), enabled=True)

    assert made.first == NOON + timedelta(seconds=300)


@pytest.mark.parametrize(
    ("key", "kind", "expression", "runs_at"),
    [
        (TASK, "every", "20", "300"),
        (TASK, "every", "300", "300"),
        (TASK, "every", "301", "301"),
        (TASK, "cron", "* * * * *", "* * * * *"),
        ("nightly", "every", "20", "20"),
    ],
)
def test_only_users_intervals_are_raised_to_the_minimum(key: str, kind: Any, expression: str, runs_at: str) -> None:
    """S1-29, C-28: declared jobs and operators' schedules keep what they say."""
    schedule = Schedule(key, "dispatch", kind, expression)

    assert apply_shortest_interval(schedule, timedelta(seconds=300)).expression == runs_at
    assert apply_shortest_interval(schedule, timedelta(0)) is schedule


# -- cron dialects -----------------------------------------------------------------------------------------------


def test_a_user_may_choose_or_for_day_and_weekday() -> None:
    """C-1: both must match unless the task says otherwise; the choice is stored with it."""
    both = wished(schedule_expr="0 3 15 * 1").schedule
    either = wished(schedule_expr="0 3 15 * 1", day_match="or").schedule

    assert (both.day_match, either.day_match) == ("and", "or")
    assert first_fire(either, NOON) == datetime(2030, 1, 14, 3, tzinfo=UTC)
    assert first_fire(both, NOON) == datetime(2030, 4, 15, 3, tzinfo=UTC)


@pytest.mark.parametrize("expr", ["0 9 * * MON-FRI", "0 9 * * 7", "@daily", "0 9 L * *"])
def test_a_user_may_ask_for_the_wider_dialect(expr: str) -> None:
    """C-2: strict unless the task says otherwise, and the refusal says what to send."""
    with refused(InvalidCron, "cron_unreadable", expression=expr) as refusal:
        wished(schedule_expr=expr)
    assert "lenient: true" in refusal.value.advice

    assert wished(schedule_expr=expr, lenient=True).schedule.lenient


def test_a_change_of_dialect_reads_the_stored_text_again_and_computes_the_next_run_anew() -> None:
    """C-1, C-2."""
    before = stored(schedule_expr="0 3 15 * MON", lenient=True)

    assert wished(before, day_match="or").retimed
    assert not wished(before, day_match="and", lenient=True, name="renamed").retimed
    with pytest.raises(InvalidCron):
        wished(before, lenient=False)


def test_an_unknown_way_to_match_days_is_refused() -> None:
    with refused(InvalidInput, "choice_unknown", name="day_match", value="xor"):
        wished(schedule_expr="0 3 * * *", day_match="xor")


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"schedule_type": "weekly"}, InvalidInput),
        ({"schedule_type": "CRON"}, InvalidInput),
        ({"timezone": "Mars/Olympus"}, UnknownZone),
        ({"timezone": ""}, UnknownZone),
        ({"timezone": "x" * 65}, InvalidInput),
        ({"schedule_expr": "61 * * * *"}, InvalidCron),
        ({"schedule_expr": 60}, InvalidCron),
        ({"schedule_expr": "0 0 30 2 *"}, NeverFires),
        ({"schedule_expr": "* * * * * *"}, InvalidInput),
        ({"handler": "rm"}, InvalidInput),
        ({"name": "a\x00b"}, HoraeError),
        ({"name": "a\nb"}, HoraeError),
        ({"name": "x" * 201}, HoraeError),
        ({"next_run_at": "tomorrow"}, InvalidInput),
        ({"next_run_at": "1969-12-31T23:59:59Z"}, InvalidInput),
        ({"next_run_at": "0001-01-01T00:00:00", "timezone": "Asia/Shanghai"}, InvalidInput),
        ({"next_run_at": "9999-12-31T23:00:00", "timezone": "America/New_York"}, InvalidInput),
        ({"schedule_type": "once"}, InvalidInput),
    ],
)
def test_what_cannot_be_kept_is_refused_when_it_is_saved(wish: dict[str, Any], error: type[HoraeError]) -> None:
    """C-3, C-27, C-29: never a silent UTC, never an invalid cron that fails at night."""
    with pytest.raises(error):
        wished(**wish)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("@daily", 'allowed: five fields. Write "0 0 * * *", or send lenient: true to allow nicknames.'),
        ("@reboot", "enqueue the job where your application starts."),
        ("@fortnightly", "@monthly, @yearly, @annually."),
        ("@every 5m", "Send an interval in seconds instead of cron: an interval counts elapsed time."),
        ("TZ=Asia/Tokyo 0 9 * * *", 'Leave it out and send timezone: "Asia/Tokyo" instead.'),
        ("5", "Give minute, hour, day, month and weekday."),
        ("0 9 * * MON", "Write 1, or send lenient: true to allow names."),
        ("0 9 * * 7", "Sunday is 0; send lenient: true to allow 7 as well."),
        ("0 9 L * *", "Send lenient: true to allow ?, L, W and #."),
        ("0 0 31 2 *", 'or send day_match: "or" when one of day and weekday should suffice.'),
    ],
)
def test_a_user_is_advised_in_words_that_can_be_sent(text: str, ends: str) -> None:
    with pytest.raises(InvalidCron) as refused:
        wished(schedule_expr=text)
    assert str(refused.value).endswith(ends)


# -- times -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "text", "instant"),
    [
        ("UTC", "2030-02-27T01:30:00", datetime(2030, 2, 27, 1, 30, tzinfo=UTC)),
        ("Asia/Shanghai", "2030-02-27T09:30:00", datetime(2030, 2, 27, 1, 30, tzinfo=UTC)),
        ("Asia/Shanghai", "2030-02-27T09:30:00Z", datetime(2030, 2, 27, 9, 30, tzinfo=UTC)),
        ("UTC", "2030-02-27T09:30:00+08:00", datetime(2030, 2, 27, 1, 30, tzinfo=UTC)),
        ("America/New_York", "2030-11-03T01:30:00", datetime(2030, 11, 3, 5, 30, tzinfo=UTC)),  # the first of two
    ],
)
def test_a_time_without_an_offset_is_read_in_the_tasks_own_zone(zone: str, text: str, instant: datetime) -> None:
    """C-7: a local time from a browser in Shanghai is not eight hours late."""
    assert wished(schedule_type="once", timezone=zone, next_run_at=text).first == instant


def test_a_time_that_clocks_skip_is_refused_with_the_moment_after() -> None:
    with refused(InvalidInput, "reading_skipped", next="2030-03-10T07:00:00Z"):
        wished(schedule_type="once", timezone="America/New_York", next_run_at="2030-03-10T02:30:00")


def test_next_run_at_is_the_first_run_whatever_the_rule_says() -> None:
    """S1-15: the rule follows it."""
    made = wished(schedule_expr="0 9 * * *", next_run_at="2030-01-07T15:47:00Z")

    assert made.first == datetime(2030, 1, 7, 15, 47, tzinfo=UTC)


@pytest.mark.parametrize("kind", [{"schedule_expr": "0 9 * * *"}, {"schedule_type": "interval", "schedule_expr": 60}])
def test_a_first_run_in_the_past_is_now_and_flagged(kind: dict[str, Any]) -> None:
    """C-18; and the years between are not counted."""
    made = wished(**kind, next_run_at="1970-01-01T00:00:00Z")

    assert made.first == NOON
    assert tuple(each.text for each in made.warnings) == (
        "next_run_at 1970-01-01T00:00:00Z has passed; the task runs at once.",
    )


def test_a_once_task_keeps_a_past_instant_and_is_flagged() -> None:
    """C-18, and the example of document 001."""
    made = wished(schedule_type="once", next_run_at="2026-02-27T01:30:00")

    assert made.first == datetime(2026, 2, 27, 1, 30, tzinfo=UTC)
    assert len(made.warnings) == 1
    assert (made.schedule.max_fires, made.schedule.overlap) == (1, "queue_one")


# -- changes -----------------------------------------------------------------------------------------------------


def test_what_is_left_out_stays() -> None:
    before = stored(name="n", schedule_expr="0 9 * * *", timezone="Asia/Shanghai")

    made = wished(before)

    assert made.schedule == before
    assert (made.first, made.arms, made.retimed, made.warnings) == (None, False, False, ())


@pytest.mark.parametrize("wish", [{"name": "other"}, {"payload": {"text": "other"}}, {"schedule_expr": " 0 9 * * * "}])
def test_what_is_no_time_leaves_the_times_alone(wish: dict[str, Any]) -> None:
    assert not wished(stored(schedule_expr="0 9 * * *"), **wish).retimed


@pytest.mark.parametrize(
    "wish",
    [
        {"schedule_expr": "0 8 * * *"},
        {"timezone": "Asia/Shanghai"},
        {"enabled": False},
        {"schedule_type": "interval", "schedule_expr": 60},
        {"next_run_at": "2030-01-08T00:00:00Z"},
    ],
)
def test_what_is_a_time_moves_the_next_run(wish: dict[str, Any]) -> None:
    """1.3: the origin forgot to."""
    assert wished(stored(schedule_expr="0 9 * * *"), **wish).retimed


def test_a_rule_that_changes_forgets_the_first_run_that_was_named() -> None:
    before = stored(schedule_expr="0 9 * * *", next_run_at="2030-01-09T00:00:00Z")

    assert wished(before, schedule_expr="0 8 * * *").schedule.starts_at is None


def test_a_first_run_that_was_named_survives_off_and_on() -> None:
    before = stored(schedule_expr="0 9 * * *", next_run_at="2030-01-09T00:00:00Z")

    off = replace(wished(before, enabled=False).schedule, number=7)

    assert wished(off, enabled=True).first == datetime(2030, 1, 9, tzinfo=UTC)


def test_only_off_to_on_counts_against_the_quota() -> None:
    on = stored(schedule_expr="0 9 * * *")
    off = stored(schedule_expr="0 9 * * *", enabled=False)

    assert not wished(on, enabled=True).arms
    assert wished(off, enabled=True).arms
    assert not wished(off, name="x").arms


def test_enabling_lifts_a_toggle() -> None:
    before = replace(stored(schedule_expr="0 9 * * *"), toggled=False)

    made = wished(before, enabled=True)

    assert (made.schedule.toggled, made.arms) == (None, True)
    assert wished(before, name="x").schedule.toggled is False


# -- once --------------------------------------------------------------------------------------------------------


def over(**changes: Any) -> Schedule:
    """A once task that has fired."""
    before = stored(schedule_type="once", next_run_at="2030-01-07T11:00:00Z")
    fired = {"fire_count": 1, "next_fire_at": None, "last_fire_at": NOON - timedelta(hours=1)}
    return replace(before, **(fired | changes))


def test_a_once_task_that_ran_is_off_and_has_no_next_run() -> None:
    """S1-11, S1-31."""
    facts = Facts(over())

    assert (facts.enabled, facts.next_run_at, facts.is_over) == (False, None, True)


def test_a_once_task_that_is_tried_again_is_on_and_says_when() -> None:
    """S1-31: its next run is the retry, sixty seconds later."""
    again = a_job(run_at=NOON + MINUTE, attempt=1, max_attempts=5)

    facts = Facts(over(), (again,))

    assert (facts.enabled, facts.next_run_at) == (True, NOON + MINUTE)


def test_a_run_by_hand_does_not_make_a_finished_task_enabled() -> None:
    """C-23."""
    assert not Facts(over(), (a_job("running", max_attempts=1),)).enabled


def test_a_once_task_that_was_given_up_says_so() -> None:
    """C-30."""
    run = Run(1, 9, "failed", 5, "dispatch", "default", "alice", "w", NOON, NOON, "no answer")

    reason = Facts(over(), last=run).reason
    assert reason is not None
    assert reason.text == "Given up after attempt 5: no answer. Send enabled and a new next_run_at to try again."


def test_enabling_a_once_task_again_needs_a_time() -> None:
    """1.3: a re-enabled once task without a time never ran."""
    with refused(InvalidInput, "next_run_at_passed", next_run_at="2030-01-07T11:00:00Z"):
        wished(over(), enabled=True)
    with refused(InvalidInput, "next_run_at_passed"):
        wished(stored(schedule_type="once", next_run_at="2030-01-07T11:00:00Z", enabled=False), enabled=True)


def test_a_disabled_once_task_whose_time_lies_ahead_needs_none() -> None:
    before = stored(schedule_type="once", next_run_at="2030-01-08T11:00:00Z", enabled=False)

    made = wished(before, enabled=True)

    assert (made.arms, made.first) == (True, datetime(2030, 1, 8, 11, tzinfo=UTC))


def test_a_once_task_with_a_new_time_may_fire_again() -> None:
    made = wished(over(), enabled=True, next_run_at="2030-01-08T00:00:00Z")

    assert (made.schedule.fire_count, made.arms, made.first) == (0, True, datetime(2030, 1, 8, tzinfo=UTC))


def test_the_same_past_instant_again_is_another_run_at_once() -> None:
    """An occurrence is identified by its instant, so it needs one of its own."""
    made = wished(over(), enabled=True, next_run_at="2030-01-07T11:00:00Z")

    assert made.first == NOON


def test_changing_the_name_of_a_finished_task_does_not_wake_it() -> None:
    made = wished(over(), name="other")

    assert (made.schedule.enabled, made.arms, made.first) == (False, False, None)


def test_a_task_sent_back_as_it_was_read_is_not_fired_again() -> None:
    before = stored(schedule_type="once", next_run_at="2030-01-08T00:00:00Z")

    made = wished(before, enabled=True, schedule_type="once", next_run_at="2030-01-08T00:00:00Z", timezone="UTC")

    assert not made.retimed


# -- rhythms -----------------------------------------------------------------------------------------------------


def test_the_next_run_is_the_retry_or_the_next_fire_whichever_is_first() -> None:
    """C-13: a retry belongs to its occurrence, and is what runs next."""
    before = replace(stored(schedule_expr="0 13 * * *"), next_fire_at=NOON + 60 * MINUTE)

    assert Facts(before).next_run_at == NOON + 60 * MINUTE
    assert Facts(before, (a_job(run_at=NOON + MINUTE, attempt=1),)).next_run_at == NOON + MINUTE


# -- payloads ----------------------------------------------------------------------------------------------------


def test_mode_and_default_agent_are_kept_and_what_bypasses_the_orchestrator_is_dropped_with_a_warning() -> None:
    """S1-25, S1-26, S1-27, C-38: document 001's own example carries a mode."""
    given = {"text": "hello", "mode": "hybrid", "default_agent": "clerk", "items": []}
    payload, warnings = check_payload("dispatch", given, Rules())

    assert payload == {"text": "hello", "mode": "hybrid", "default_agent": "clerk"}
    assert [warning.text.split()[0] for warning in warnings] == ["items"]


def test_a_payload_that_says_nothing_is_kept_with_a_warning() -> None:
    """S1-8: it is free JSON; but its runs will fail, and now somebody listens."""
    _, warnings = check_payload("dispatch", {"input": ""}, Rules())

    assert [each.text for each in warnings] == [
        "Its runs will fail: The payload needs a text (or input) that says what to do."
    ]


@pytest.mark.parametrize("key", ["ctx", "self"])
def test_a_key_that_handlers_use_themselves_is_refused(key: str) -> None:
    with refused(InvalidPayload, "payload_key_reserved"):
        check_payload("dispatch", {"text": "x", key: 1}, Rules())


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"url": 1},
        {"url": "ftp://example.org/"},
        {"url": "http://example.org/"},
        {"url": "https://127.0.0.1/"},
        {"url": "https://169.254.169.254/"},
        {"url": "https://example.org:22/"},
        {"url": "https://example.org/", "method": "GET"},
    ],
)
def test_a_webhook_that_may_not_be_called_is_refused_when_it_is_saved(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        check_payload("webhook", payload, Rules())


def test_a_webhook_to_the_public_internet_is_kept() -> None:
    payload = {"url": "https://example.org/hook", "body": {"a": 1}, "secret": "orders"}

    assert check_payload("webhook", payload, Rules()) == (payload, ())


def test_a_handler_that_is_not_there_keeps_the_task_inactive_until_it_is() -> None:
    """C-15."""
    without, with_it = Terms(known={"webhook"}), Terms(known={"dispatch"})

    before = replace(wished(terms=without, schedule_expr="0 9 * * *").schedule, number=7)

    assert before.inactive is not None
    assert "dispatch" in before.inactive
    assert wished(before, terms=without).schedule.inactive == before.inactive
    assert wished(before, terms=Terms(known=None)).schedule.inactive == before.inactive
    assert wished(before, terms=with_it).schedule.inactive is None


# -- ids ---------------------------------------------------------------------------------------------------------


def test_a_key_names_the_same_task_for_one_tenant_only() -> None:
    assert id_for("alice", "k") == TASK
    assert is_task_id(TASK)
    assert len({TASK, id_for("bob", "k"), id_for("alice", "l"), id_for("alic", "ek")}) == 4


@pytest.mark.parametrize("text", ["", "task_", "task_xyz", "job_1", TASK + "0", TASK.upper(), f"{TASK}\n"])
def test_what_cannot_be_a_task_id_is_not_looked_for(text: str) -> None:
    assert not is_task_id(text)
