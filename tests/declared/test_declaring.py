"""What a declaration may say, and how it is refused (S3-1, S3-6, S3-8 … S3-14)."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from horae import Blueprint, Context, Horae, Retry
from horae.core.schedules.schedule import Schedule
from horae.declare.declarations import collecting
from horae.errors import (
    ConfigurationError,
    DefinitionError,
    HoraeError,
    InvalidCron,
    InvalidInterval,
    InvalidPayload,
    UnknownZone,
)
from horae.testing import Lab
from tests.support.refusals import refused


@pytest.fixture
def app() -> Horae:
    return Horae("sqlite://", name="test")


def work(ctx: Context) -> None:
    """A job that does nothing."""


def the_schedule(app: Horae, name: str = "clean") -> Schedule:
    schedule = app.definitions.get(name).schedule
    assert schedule is not None
    return schedule


# -- what is declared --------------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_document_003(app: Horae) -> None:
    """S3-8"""
    app.job("clean", cron="0 3 * * *")(work)

    schedule = the_schedule(app)
    assert (schedule.mode, schedule.lock_ttl, schedule.enabled) == ("SINGLE_NODE", timedelta(seconds=30), True)
    assert (schedule.zone, schedule.day_match, schedule.overlap) == ("UTC", "and", "skip")


def test_a_lenient_application_reads_names_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "jobs.conf"
    file.write_text("[[jobs.items]]\nid = 'plain'\ncron = '0 3 L-3 * *'\n")
    lenient = Horae("sqlite://", name="test", lenient=True, config=file)
    lenient.job("clean", cron="0 3 * * FRI-MON")(work)
    lenient.job("plain")(work)
    with refused(InvalidCron, "cron_unreadable"):
        lenient.job("strict", cron="0 3 * * MON", lenient=False)(work)
    shared = Blueprint(lenient=True)
    shared.job("shared", cron="@daily")(work)
    lenient.include(shared)

    assert the_schedule(lenient, "clean").lenient
    assert the_schedule(lenient, "plain").expression == "0 3 L-3 * *"
    assert the_schedule(lenient, "shared").describe() == "At 00:00 every day (UTC)"
    assert lenient.problems_noted == []


async def test_schedules_made_through_a_lenient_application_are_lenient() -> None:
    lenient = Horae("sqlite://", name="test", lenient=True)
    lenient.job("clean")(work)
    async with Lab(lenient):
        made = lenient.schedules.create("nightly", handler="clean", cron="0 3 * * MON")
        strict = lenient.schedules.create("strict", handler="clean", cron="0 3 * * 1", lenient=False)
        changed = lenient.schedules.change("strict", cron="@daily")

    assert (made.lenient, strict.lenient, changed.lenient) == (True, False, True)


async def test_an_h_in_cron_becomes_a_number_that_follows_from_the_name(app: Horae) -> None:
    app.job("clean", cron="H 3 * * *")(work)
    app.job("other", cron="H 3 * * *")(work)
    async with Lab(app):
        made = app.schedules.create("third", handler="clean", cron="H 3 * * *")
        moved = app.schedules.change("clean", cron="H H * * *")

    first, second = the_schedule(app).expression, the_schedule(app, "other").expression
    assert first != second
    assert first.endswith(" 3 * * *")
    assert made.expression not in (first, second, "H 3 * * *")
    assert moved.expression.split()[0] == first.split()[0]


@pytest.mark.parametrize("every", [300, 300.0, timedelta(minutes=5)])
def test_an_interval_is_seconds_or_a_timedelta(app: Horae, every: Any) -> None:
    app.job("clean", every=every, initial_delay=10)(work)

    schedule = the_schedule(app)
    assert (schedule.kind, schedule.expression, schedule.anchor) == ("every", "300", "start")
    assert schedule.initial_delay == timedelta(seconds=10)


def test_an_interval_may_rest_after_each_run_instead(app: Horae) -> None:
    app.job("clean", every=0.25, anchor="finish")(work)

    assert (the_schedule(app).expression, the_schedule(app).anchor) == ("0.25", "finish")


def test_a_scheduled_job_is_not_tried_again_and_one_only_enqueued_three_times(app: Horae) -> None:
    """C-11"""
    app.job("clean", cron="0 3 * * *")(work)
    app.job("mail")(work)
    app.job("stubborn", cron="0 3 * * *", retry=Retry.fixed(1, attempts=9))(work)

    assert the_schedule(app).retry == Retry.none()
    assert app.definitions.get("mail").retry == Retry.fixed(300, attempts=3)
    assert the_schedule(app, "stubborn").retry.attempts == 9


def test_a_job_without_a_schedule_is_only_enqueued(app: Horae) -> None:
    app.job("mail")(work)

    assert app.definitions.get("mail").schedule is None
    assert app.problems() == []


def test_every_value_knows_whether_code_or_the_default_said_it(app: Horae) -> None:
    """C-16"""
    app.job("clean", cron="0 3 * * *", lock_ttl=60)(work)

    sources = the_schedule(app).sources
    assert (sources["expression"], sources["lock_ttl"], sources["zone"]) == ("code", "code", "default")


def test_a_job_may_follow_others(app: Horae) -> None:
    """S3-49"""
    app.job("extract", cron="0 1 * * *")(work)
    app.job("load", after=["extract"])(work)

    assert (the_schedule(app, "load").kind, the_schedule(app, "load").after) == ("after", ("extract",))


def test_a_scheduled_job_brings_its_arguments_along(app: Horae) -> None:
    @app.job("report", cron="0 6 * * 1", arguments={"size": "a4"})
    def report(ctx: Context, size: str, copies: int = 1) -> None: ...

    assert the_schedule(app, "report").payload == {"size": "a4"}


def test_a_declared_function_can_still_be_called(app: Horae) -> None:
    @app.job("double", cron="0 3 * * *", arguments={"number": 1})
    def double(number: int) -> int:
        return 2 * number

    assert double(21) == 42


# -- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "   ", None])
def test_a_blank_id_is_refused(app: Horae, name: Any) -> None:
    """S3-9"""
    with refused(DefinitionError, "declarations_invalid", reasons=["job_id_blank"]):
        app.job(name, cron="0 3 * * *")(work)


def test_a_second_job_with_the_same_id_is_refused(app: Horae) -> None:
    """S3-9"""
    app.job("clean", cron="0 3 * * *")(work)

    with refused(DefinitionError, "job_declared_twice", handler="clean"):
        app.job("clean", every=5)(work)


def test_cron_and_interval_exclude_each_other(app: Horae) -> None:
    """S3-10"""
    with refused(DefinitionError, "declarations_invalid", reasons=["options_exclusive"]):
        app.job("clean", cron="0 3 * * *", every=5)(work)


def test_an_empty_cron_is_refused_and_not_taken_for_none(app: Horae) -> None:
    with refused(DefinitionError, "declarations_invalid", reasons=["option_empty"]):
        app.job("clean", cron="")(work)


@pytest.mark.parametrize("ttl", [0, -1, timedelta(0), "soon"])
def test_a_lock_must_last_some_time(app: Horae, ttl: Any) -> None:
    """S3-11"""
    with refused(DefinitionError, "declarations_invalid", reasons=["lock_ttl_not_positive"]):
        app.job("clean", cron="0 3 * * *", lock_ttl=ttl)(work)


def test_a_lock_on_all_nodes_is_doubtful_but_allowed(app: Horae) -> None:
    """S3-11"""
    app.job("clean", cron="0 3 * * *", mode="ALL_NODES", lock_ttl=60)(work)

    (problem,) = app.problems()
    assert problem.severity == "warning"
    assert "takes no lock" in problem.text
    assert the_schedule(app).lock_ttl is None


def test_an_unknown_mode_is_refused(app: Horae) -> None:
    with refused(DefinitionError, "declarations_invalid", reasons=["mode_unknown"]):
        app.job("clean", cron="0 3 * * *", mode="EVERY_NODE")(work)  # type: ignore[arg-type]


def test_all_nodes_without_a_time_is_refused(app: Horae) -> None:
    with refused(DefinitionError, "declarations_invalid", reasons=["all_nodes_without_times"]):
        app.job("clean", mode="ALL_NODES")(work)


def test_a_concurrency_key_of_a_scheduled_job_is_doubtful(app: Horae) -> None:
    """Whoever fires a schedule may not know its handler, and so not its key."""
    app.job("clean", cron="0 3 * * *", concurrency_key="disk")(work)

    (problem,) = app.problems()
    assert (problem.severity, "overlap" in problem.text) == ("warning", True)


def test_an_initial_delay_of_a_cron_job_is_doubtful(app: Horae) -> None:
    """S3-8"""
    app.job("clean", cron="0 3 * * *", initial_delay=5)(work)

    assert [problem.severity for problem in app.problems()] == ["warning"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"cron": "0 25 * * *"}, InvalidCron),
        ({"cron": "0 0 30 2 *"}, InvalidCron),
        ({"cron": "0 3 * * *", "zone": "Europe/Atlantis"}, UnknownZone),
        ({"every": -5}, InvalidInterval),
        ({"every": 0.0001}, InvalidInterval),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_in_its_own_words(
    app: Horae, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        app.job("clean", **options)(work)


@pytest.mark.parametrize(
    "options",
    [
        {"jitter": "a bit"},
        {"jitter": float("nan")},
        {"grace": timedelta.max},
        {"spread": None},
        {"initial_delay": 1e300},
        {"lock_ttl": 1e12},
        {"enabled": "no"},
        {"group": "two words"},
        {"catch_up": "3"},
        {"max_fires": 1.5},
        {"starts_at": "2030-01-07"},
        {"gap": []},
        {"zone": None},
        {"timeout": "5 minutes"},
        {"stale_timeout": "5 minutes"},
        {"retry": 3},
        {"arguments": 5},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_kind_is_refused_where_it_is_written(app: Horae, options: dict[str, Any]) -> None:
    """Not by the store when a worker starts, which would leave the job silent."""
    with pytest.raises(HoraeError):
        app.job("clean", every=60, **options)(work)


@pytest.mark.parametrize("after", ["nightly", 5, [5]])
def test_leaders_are_a_list_of_ids(app: Horae, after: Any) -> None:
    with refused(DefinitionError, "after_no_list"):
        app.job("clean", after=after)(work)


def test_arguments_that_no_store_can_keep_are_refused_where_they_are_written(app: Horae) -> None:
    with refused(InvalidPayload, "not_json"):

        @app.job("report", every=60, arguments={"day": date(2030, 1, 7)})
        def report(ctx: Context, day: Any) -> None: ...


def test_a_number_of_fires_to_catch_up_says_that_they_are_caught_up(app: Horae) -> None:
    """As on the command line; alone it would have no effect."""
    app.job("clean", every=60, catch_up=3)(work)

    assert the_schedule(app).misfire == "catch_up"


def test_a_misspelled_option_is_refused_with_the_one_meant(app: Horae) -> None:
    with refused(DefinitionError, "declarations_invalid", reasons=["option_misspelt"]):
        app.job("clean", cron="0 3 * * *", lock_tll=60)(work)  # type: ignore[call-arg]


def test_a_scheduled_job_that_needs_arguments_and_has_none_is_refused(app: Horae) -> None:
    with refused(DefinitionError, "scheduled_arguments_missing"):

        @app.job("report", cron="0 6 * * 1")
        def report(ctx: Context, size: str) -> None: ...


def test_all_that_is_wrong_with_a_declaration_is_told_at_once(app: Horae) -> None:
    with pytest.raises(DefinitionError) as refused:
        app.job("clean", cron="0 3 * * *", every=5, lock_ttl=0, mode="SOME")(work)  # type: ignore[arg-type]

    assert refused.value.reason == "declarations_invalid"
    assert len(cast("list[str]", refused.value.facts["problems"])) == 3


# -- classes -----------------------------------------------------------------------------------------------------


def test_a_class_without_run_is_refused(app: Horae) -> None:
    """S3-12"""
    with refused(DefinitionError, "run_method_missing"):

        @app.job("clean", cron="0 3 * * *")
        class Clean:
            pass


def test_a_class_whose_run_takes_no_context_is_refused(app: Horae) -> None:
    """S3-12"""
    with refused(DefinitionError, "run_without_context"):

        @app.job("clean", cron="0 3 * * *")
        class Clean:
            def run(self) -> None: ...


def test_a_constructor_parameter_that_nobody_can_fill_is_refused(app: Horae) -> None:
    """S3-14"""
    with refused(DefinitionError, "parameter_not_fillable", parameter="tokens"):

        @app.job("clean", cron="0 3 * * *")
        class Clean:
            def __init__(self, tokens) -> None:  # type: ignore[no-untyped-def]
                self.tokens = tokens

            def run(self, ctx: Context) -> None: ...


def test_a_dependency_that_nothing_provides_is_refused_at_the_start(app: Horae) -> None:
    """S3-14"""

    class Tokens: ...

    @app.job("clean", cron="0 3 * * *")
    class Clean:
        def __init__(self, tokens: Tokens) -> None: ...
        def run(self, ctx: Context) -> None: ...

    with refused(DefinitionError, "declarations_invalid", reasons=["class_unmakeable"]):
        app.worker()

    app.provide(Tokens, Tokens())
    assert app.problems() == []


def test_a_declared_class_can_still_be_made_by_hand(app: Horae) -> None:
    @app.job("clean", cron="0 3 * * *")
    class Clean:
        def __init__(self, number: int = 7) -> None:
            self.number = number

        def run(self, ctx: Context) -> None: ...

    assert Clean(8).number == 8


# -- several modules ---------------------------------------------------------------------------------------------


def test_an_application_is_merged_from_several_collections(app: Horae) -> None:
    """S3-9, S3-13"""
    first, second = Blueprint(), Blueprint()
    first.job("a", cron="0 1 * * *")(work)
    second.job("b", cron="0 2 * * *")(work)

    app.include(first)
    app.include(second)

    assert [schedule.key for schedule in app.plan().schedules] == ["a", "b"]


def test_merging_two_jobs_with_one_id_is_refused(app: Horae) -> None:
    """S3-9"""
    other = Blueprint()
    app.job("a", cron="0 1 * * *")(work)
    other.job("a", cron="0 2 * * *")(work)

    with refused(DefinitionError, "job_declared_twice", handler="a"):
        app.include(other)


def test_a_collection_belongs_to_one_application_only(app: Horae) -> None:
    jobs = Blueprint()
    app.include(jobs)

    with refused(DefinitionError, "blueprint_included_twice"):
        Horae("sqlite://").include(jobs)


def test_a_job_of_a_collection_can_be_enqueued_once_it_is_included(app: Horae) -> None:
    jobs = Blueprint()
    mail = jobs.job("mail")(work)
    with refused(ConfigurationError, "blueprint_not_included"):
        mail.enqueue()

    app.include(jobs)

    assert app.get(mail.enqueue().id).handler == "mail"


def test_jobs_that_wait_for_each_other_are_refused_with_the_circle(app: Horae) -> None:
    """S3-49"""
    app.job("a", after=["c"])(work)
    app.job("b", after=["a"])(work)
    app.job("c", after=["b"])(work)

    with refused(DefinitionError, "declarations_invalid", reasons=["jobs_in_circle"]):
        app.plan()


def test_a_check_goes_on_after_the_first_bad_declaration(app: Horae) -> None:
    with collecting() as problems:
        app.job("", cron="0 3 * * *")(work)
        app.job("clean", cron="0 25 * * *")(work)
        app.job("good", cron="0 3 * * *")(work)

    assert [problem.where for problem in problems] == ["''", "clean"]
    assert [definition.name for definition in app.definitions] == ["good"]
