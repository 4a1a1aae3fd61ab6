"""jobs.conf: what operations may change without touching the code (S3-2, S3-15 … S3-17, C-16)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from horae import Blueprint, Context, Horae, JobStatus, Retry
from horae.actions.jobs.running_limits import list_limits, set_limit
from horae.core.schedules.schedule import Schedule
from horae.errors import ConfigurationError, DefinitionError, InvalidInput
from tests.support.refusals import refused


def work(ctx: Context) -> None:
    """A job that does nothing."""


@pytest.fixture
def app(tmp_path: Path) -> Horae:
    app = Horae("sqlite://", name="test", config=tmp_path / "jobs.conf")
    app.job("clean", cron="0 3 * * *", lock_ttl=60)(work)
    app.job("sync", every=300, initial_delay=10)(work)
    app.job("temp", cron="0 2 * * *", mode="ALL_NODES")(work)
    app.job("mail")(work)
    return app


def write(app: Horae, text: str, name: str = "jobs.conf") -> None:
    Path(str(app.config)).with_name(name).write_text(text, encoding="utf-8")


def plan(app: Horae) -> dict[str, Schedule]:
    return {schedule.key: schedule for schedule in app.plan().schedules}


def scheduled(app: Horae) -> list[JobStatus]:
    return [status for status in app.snapshot() if status.id != "mail"]


def findings(app: Horae) -> list[str]:
    folder = Path(str(app.config)).parent
    return [str(problem).replace(f"{folder}/", "") for problem in app.problems()]


def test_the_file_of_the_document_is_read_word_for_word(app: Horae) -> None:
    """S3-15, S3-16"""
    write(
        app,
        """
        [jobs]
        enabled = true

        [[jobs.items]]
        id = "clean"
        enabled = true
        cron = "0 4 * * *"                    # an override

        [[jobs.items]]
        id = "sync"
        enabled = false
        fixedRate = 600000
        initialDelay = 5000
        lockTtlMs = 45000

        [[jobs.items]]
        id = "temp"
        mode = "SINGLE_NODE"
        """,
    )

    answer = plan(app)
    assert answer["clean"].expression == "0 4 * * *"
    sync = answer["sync"]
    assert (sync.enabled, sync.expression, sync.anchor) == (False, "600", "finish")
    assert (sync.initial_delay, sync.lock_ttl) == (timedelta(seconds=5), timedelta(seconds=45))
    assert (answer["temp"].mode, answer["temp"].lock_ttl) == ("SINGLE_NODE", timedelta(seconds=30))


def test_snake_case_takes_seconds_and_durations(app: Horae) -> None:
    write(
        app, '[[jobs.items]]\nid = "sync"\nevery = "10m"\ninitial_delay = 2.5\nlock_ttl = "90s"\nzone = "Asia/Shanghai"'
    )

    sync = plan(app)["sync"]
    assert (sync.expression, sync.anchor, sync.zone) == ("600", "start", "Asia/Shanghai")
    assert (sync.initial_delay, sync.lock_ttl) == (timedelta(seconds=2.5), timedelta(seconds=90))


def test_the_file_wins_over_code_and_each_value_says_so(app: Horae) -> None:
    """S3-16, C-16"""
    write(app, '[[jobs.items]]\nid = "clean"\ncron = "0 4 * * *"')

    sources = plan(app)["clean"].sources
    assert (sources["expression"], sources["lock_ttl"], sources["zone"]) == ("file", "code", "default")


def test_a_cron_line_replaces_an_interval(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "sync"\ncron = "*/5 * * * *"')

    assert plan(app)["sync"].kind == "cron"


def test_the_file_may_give_a_schedule_to_a_job_that_has_none(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "mail"\ncron = "0 8 * * *"')

    assert plan(app)["mail"].expression == "0 8 * * *"


def test_the_global_switch_turns_everything_off(app: Horae) -> None:
    """S3-17"""
    write(app, '[jobs]\nenabled = false\n[[jobs.items]]\nid = "clean"\nenabled = true')

    assert not app.plan().enabled
    app.declare_schedules()
    assert [status.next_fire_time for status in scheduled(app)] == [None, None, None]
    assert all("enabled = false" in (status.inactive or "") for status in scheduled(app))


def test_turning_the_switch_back_on_lets_everything_go_on_from_now(app: Horae) -> None:
    write(app, "[jobs]\nenabled = false")
    app.declare_schedules()

    write(app, "[jobs]\nenabled = true")
    app.declare_schedules()

    assert all(status.next_fire_time and not status.inactive for status in scheduled(app))


@pytest.mark.parametrize(
    ("in_code", "in_file", "off"),
    [
        (True, "", None),
        (False, "", "Horae(enabled=False) in code"),
        (False, "[jobs]\nenabled = true", None),
        (True, "[jobs]\nenabled = false", "enabled = false in jobs.conf"),
    ],
)
def test_the_global_switch_of_the_code_holds_unless_the_file_says_otherwise(
    app: Horae, in_code: bool, in_file: str, off: str | None
) -> None:
    """S3-39; triggers run all the same (S3-30)."""
    app.enabled = in_code
    write(app, in_file)
    app.declare_schedules()

    assert {bool(status.next_fire_time) for status in scheduled(app)} == {off is None}
    assert all((off or "") in (status.inactive or "") for status in scheduled(app))
    assert app.trigger("clean") is not None
    assert Horae("sqlite://", enabled=False).enabled is False


def test_the_file_of_the_environment_wins_where_it_says_something(app: Horae) -> None:
    write(app, '[jobs]\nenabled = false\n[[jobs.items]]\nid = "clean"\ncron = "0 4 * * *"\nlockTtlMs = 1000')
    write(app, '[jobs]\nenabled = true\n[[jobs.items]]\nid = "clean"\ncron = "0 5 * * *"', "jobs.prod.conf")
    assert plan(app)["clean"].expression == "0 4 * * *"

    app.environment = "prod"

    clean = plan(app)["clean"]
    assert (clean.expression, clean.lock_ttl, app.plan().enabled) == ("0 5 * * *", timedelta(seconds=1), True)


def test_the_environment_is_named_by_a_variable(app: Horae, monkeypatch: pytest.MonkeyPatch) -> None:
    write(app, "")
    write(app, "[jobs]\nenabled = false", "jobs.stage.conf")
    monkeypatch.setenv("HORAE_ENVIRONMENT", "stage")

    assert not app.plan().enabled


def test_an_environment_without_a_file_of_its_own_uses_the_common_one(app: Horae) -> None:
    write(app, "[jobs]\nenabled = false")
    app.environment = "prod"

    assert not app.plan().enabled


def test_without_a_file_the_code_alone_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = Horae("sqlite://")
    app.job("clean", cron="0 3 * * *")(work)

    assert plan(app)["clean"].expression == "0 3 * * *"


def test_the_file_is_looked_for_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.conf").write_text('[[jobs.items]]\nid = "clean"\ncron = "0 4 * * *"')
    app = Horae("sqlite://")
    app.job("clean", cron="0 3 * * *")(work)

    assert plan(app)["clean"].expression == "0 4 * * *"


def test_a_file_that_was_named_must_exist(app: Horae) -> None:
    app.config = "/nowhere/jobs.conf"

    with refused(ConfigurationError, "jobs_file_missing"):
        app.plan()


# -- what is refused ---------------------------------------------------------------------------------------------


def test_an_unknown_job_is_an_error_with_its_line_and_the_one_meant(app: Horae) -> None:
    write(app, '[jobs]\n\n[[jobs.items]]\nid = "claen"\nenabled = false\n')

    assert findings(app) == ["jobs.conf:4: no job 'claen' is declared; did you mean 'clean'?"]


def test_an_unknown_key_is_an_error_with_its_line_and_the_one_meant(app: Horae) -> None:
    write(app, '[jobs]\nenabeld = false\n[[jobs.items]]\nid = "clean"\n[[jobs.items]]\nid = "sync"\nfixdRate = 5\n')

    assert findings(app) == [
        "jobs.conf:2: unknown key 'enabeld'; did you mean 'enabled'?",
        "jobs.conf:7: unknown key 'fixdRate'; did you mean 'fixedRate'?",
    ]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ('enabled = "yes"', "true or false"),
        ("fixedRate = 0", "at least"),
        ('fixedRate = "5m"', "whole number"),
        ("mode = 'EVERYWHERE'", "SINGLE_NODE"),
        ("cron = 5", "text in quotes"),
        ('lock_ttl = "soon"', "not a duration"),
        ("lockTtlMs = 0", "above zero"),
        ('overlap = "maybe"', "one of skip, queue_one, allow"),
        ('cron = "0 25 * * *"', "position"),
        ('zone = "Europe/Atlantis"', "no time zone"),
        ("every = nan", "not a number of seconds"),
        ("jitter = inf", "not a number of seconds"),
        ("lockTtlMs = 9223372036854775807", "fewer milliseconds"),
        ("lock_ttl = 99999999999", "too long"),
        ('group = "two words"', "group"),
        ('after = "sync"', "list of ids"),
        ("after = []", "list of ids"),
        ("starts_at = 2030-01-07T06:00:00", "with an offset"),
        ('ends_at = "tomorrow"', "tomorrow"),
        ("max_fires = 0", "max_fires"),
        ('queue = "two words"', "queue"),
        ('priority = "urgent"', "one of high, medium, low"),
        ('retry = "often"', "one of none, fixed, exponential, external"),
        ("retry = 3", 'kind = "fixed"'),
        ('retry = { kind = "fixed", tries = 3 }', "tries"),
        ('retry = { kind = "fixed", attempts = 0 }', "attempt"),
        ('retry = { kind = "exponential", factor = "two" }', "a number"),
        ('retry = "external"', "decide"),
        ('executor = "async"', "not an async function"),
        ("concurrency_limit = 0", "concurrency_limit"),
        ('tenants = "yes"', "true or false"),
        ('decide = "later"', "it is a function"),
        ("rate_limit = 5", "[jobs.limits]"),
    ],
)
def test_a_value_that_cannot_be_is_an_error_and_changes_nothing(app: Horae, line: str, answer: str) -> None:
    write(app, f'[[jobs.items]]\nid = "clean"\n{line}\n')

    (finding,) = findings(app)
    assert finding.startswith("jobs.conf:")
    assert answer in finding
    with pytest.raises(DefinitionError):
        app.plan()


def test_an_option_that_is_wrong_is_named_with_its_own_line(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "clean"\nenabled = true\nzone = "Europe/Atlantis"\nqueue = "two words"\n')

    assert [finding.partition(": ")[0] for finding in findings(app)] == ["jobs.conf:4", "jobs.conf:5"]
    assert [finding.split(": ")[1] for finding in findings(app)] == ["zone of clean", "queue of clean"]


def test_an_item_that_is_wrong_leaves_its_job_to_the_code_where_jobs_are_only_enqueued(app: Horae) -> None:
    """A process that enqueues goes on; a worker refuses to start."""
    write(app, '[[jobs.items]]\nid = "mail"\nqueue = "two words"\n')

    assert app.definitions.get("mail").queue == "default"


# -- the options of a definition ---------------------------------------------------------------------------------

MAIL = """
[[jobs.items]]
id = "mail"
queue = "slow"
priority = "low"
timeout = "5m"
retry = { kind = "exponential", attempts = 7, delay = "10s", cap = "1h", jitter = false }
concurrency_key = "mail"
concurrency_limit = 2
executor = "process"
tenants = true
"""


def test_a_process_that_only_enqueues_is_warned_of_what_the_file_has_wrong(
    app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    write(app, '[[jobs.items]]\nid = "mail"\nqueue = "post"\nretry = "sometimes"\n')

    app.jobs.enqueue("mail", {})
    app.definitions.get("mail")

    assert [record.message for record in caplog.records if "left out" in record.message]


def test_the_file_changes_the_policy_of_a_job_that_is_only_enqueued(app: Horae) -> None:
    mail = app.job("send")(work)
    write(app, MAIL.replace('"mail"', '"send"', 1))

    app.declare_schedules()
    request = mail.request()

    assert (request.queue, request.priority, request.timeout) == ("slow", "low", timedelta(minutes=5))
    assert request.retry == Retry.exponential(10, attempts=7, cap=3600, jitter=False)
    assert (request.concurrency_key, request.concurrency_limit) == ("mail", 2)
    assert app.definitions.get("send").executor == "process"
    assert [(each.queue, each.tenants) for each in app.plan().definitions if each.name == "send"] == [("slow", True)]


def test_a_process_that_only_enqueues_reads_the_file_when_it_first_needs_a_job(app: Horae) -> None:
    write(app, MAIL)

    assert app.definitions.get("mail").queue == "slow"


def test_the_file_changes_jobs_of_modules_that_an_application_includes(app: Horae) -> None:
    others = Blueprint()
    send = others.job("send", queue="fast")(work)
    assert send.definition.queue == "fast"
    write(app, MAIL.replace('"mail"', '"send"', 1))

    app.include(others)

    assert send.request().queue == "slow"


def test_a_file_that_is_read_again_takes_back_what_it_no_longer_says(app: Horae) -> None:
    write(app, MAIL)
    assert app.plan().enabled
    assert app.definitions.get("mail").queue == "slow"

    write(app, "")
    app.declare_schedules()

    assert app.definitions.get("mail").queue == "default"


def test_the_policy_of_a_scheduled_job_holds_for_its_fires_too(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "clean"\nqueue = "slow"\nretry = { kind = "fixed", delay = 5, attempts = 2 }\n')

    clean = plan(app)["clean"]
    assert (clean.queue, clean.retry, clean.sources["queue"]) == ("slow", Retry.fixed(5, attempts=2), "file")
    assert (clean.sources["retry"], clean.sources["lock_ttl"], clean.sources["priority"]) == ("file", "code", "default")


def test_the_file_may_bound_a_schedule_and_let_it_follow_others(app: Horae) -> None:
    write(
        app,
        '[[jobs.items]]\nid = "clean"\nstarts_at = 2030-01-07T06:00:00Z\nends_at = "2031-01-07T06:00:00+08:00"\n'
        'max_fires = 5\n[[jobs.items]]\nid = "mail"\nafter = ["clean", "sync"]\n',
    )

    clean, mail = plan(app)["clean"], plan(app)["mail"]
    assert clean.starts_at == datetime(2030, 1, 7, 6, tzinfo=UTC)
    assert clean.ends_at == datetime(2031, 1, 6, 22, tzinfo=UTC)
    assert (clean.max_fires, mail.kind, mail.after) == (5, "after", ("clean", "sync"))


def test_a_table_of_its_own_says_the_same_as_one_on_a_line(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "mail"\n[jobs.items.retry]\nkind = "fixed"\nattempts = 2\ndelay = "1m"\n')

    assert app.definitions.get("mail").retry == Retry.fixed(60, attempts=2)


def test_a_job_that_the_file_schedules_keeps_the_retries_of_the_code(app: Horae) -> None:
    """It is enqueued as before; what a schedule means for retries is said where it is declared."""
    write(app, '[[jobs.items]]\nid = "mail"\ncron = "0 8 * * *"')

    assert plan(app)["mail"].retry == app.definitions.get("mail").retry == Retry.fixed(300, attempts=3)


def test_an_exclusive_job_of_the_file_has_its_own_key(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "mail"\nexclusive = true\nstale_timeout = "10m"')

    mail = app.definitions.get("mail")
    assert (mail.concurrency_key, mail.stale_timeout) == ("mail", timedelta(minutes=10))


def test_timing_for_a_job_without_a_schedule_is_refused(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "mail"\nqueue = "slow"\nzone = "Asia/Shanghai"')

    assert findings(app) == [
        "jobs.conf:2: mail has no schedule in code that could be changed; give cron, every or after."
    ]


def test_a_number_of_fires_to_catch_up_says_that_they_are_caught_up(app: Horae) -> None:
    """As on the command line; alone it would have no effect."""
    write(app, '[[jobs.items]]\nid = "clean"\ncatch_up = 3\n')

    answer = plan(app)
    assert (answer["clean"].misfire, answer["clean"].catch_up) == ("catch_up", 3)


def test_a_file_may_begin_with_the_mark_of_an_editor(app: Horae) -> None:
    write(app, "\ufeff[jobs]\nenabled = false\n")

    assert not app.plan().enabled


def test_two_rules_for_one_job_exclude_each_other(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "clean"\ncron = "0 4 * * *"\nfixedRate = 5000\n')

    assert "exclude each other" in findings(app)[0]


def test_one_job_twice_is_an_error(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "clean"\n[[jobs.items]]\nid = "clean"\n')

    assert findings(app) == ["jobs.conf:4: 'clean' is there twice; keep one item."]


def test_a_file_that_is_not_toml_says_where_it_breaks(app: Horae) -> None:
    write(app, "[jobs\nenabled = true")

    assert "line 1" in findings(app)[0]


def test_an_item_without_an_id_is_an_error(app: Horae) -> None:
    write(app, "[[jobs.items]]\nenabled = false\n")

    assert findings(app) == ['jobs.conf:1: this item names no job; add id = "…".']


def test_every_problem_is_listed_not_only_the_first(app: Horae) -> None:
    write(app, '[[jobs.items]]\nid = "x"\n[[jobs.items]]\nid = "clean"\nfoo = 1\ncron = "bad"\nmode = "ALL"\n')

    assert len(findings(app)) == 4


# -- limits ------------------------------------------------------------------------------------------------------

LIMITS = """
[jobs.limits]
global = 20

[jobs.limits.groups]
night = 3

[jobs.limits.queues]
mail = 2
"""


def limits(app: Horae) -> dict[str, tuple[int | None, str]]:
    return {name: (each.max_running, each.source) for name, each in app.plan().limits.items()}


def test_limits_come_from_code_and_the_file_wins(app: Horae) -> None:
    """S3-53: over all, by group, by queue."""
    write(app, "")
    app.job("roll-up", every=60, group="night")(work)
    app.limit(50)
    app.limit(9, group="night")
    app.limit(1, queue="slow")
    assert limits(app) == {"global": (50, "code"), "group:night": (9, "code"), "queue:slow": (1, "code")}

    write(app, LIMITS)

    assert limits(app) == {
        "global": (20, "file"),
        "group:night": (3, "file"),
        "queue:mail": (2, "file"),
        "queue:slow": (1, "code"),
    }


def test_the_file_may_lift_a_limit_of_the_code_and_the_environment_s_file_wins(app: Horae) -> None:
    app.limit(50)
    write(app, '[jobs.limits]\nglobal = "none"\n')
    assert limits(app) == {}

    app.environment = "prod"
    write(app, "[jobs.limits]\nglobal = 7\n", "jobs.prod.conf")

    assert limits(app) == {"global": (7, "file")}


def test_a_worker_that_starts_makes_the_declared_limits_hold_and_takes_them_back(app: Horae) -> None:
    """S3-53: what an operator set stays."""
    write(app, LIMITS)
    app.declare_schedules()
    set_limit(app.world, "queue:mail", 8)
    write(app, "[jobs.limits]\nglobal = 4\n")
    app.declare_schedules()

    held = {each.name: (each.max_running, each.source) for each in list_limits(app.world)}
    assert held == {"global": (4, "file"), "queue:mail": (8, "api")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[jobs.limits]\nglobal = 0\n", "jobs.conf:2: global = 0: A limit of 0 cannot be kept"),
        ("[jobs.limits]\nglobal = true\n", "jobs.conf:2: global = True: A limit of True cannot be kept"),
        ("[jobs.limits]\ngroup = 3\n", "jobs.conf:2: unknown key 'group'; did you mean 'groups'?"),
        ("[jobs.limits.groups]\n'a b' = 3\n", "jobs.conf:2: a b = 3: 'a b' cannot name a group"),
        ("[jobs]\nlimits = 3\n", "jobs.conf:2: write [jobs.limits] with global, groups and queues"),
        ("[jobs.limits]\nqueues = 3\n", "jobs.conf:2: write [jobs.limits.queues], name by name"),
    ],
)
def test_a_limit_that_cannot_work_is_told_with_its_line(app: Horae, text: str, said: str) -> None:
    write(app, text)

    assert [finding for finding in findings(app) if finding.startswith(said)], findings(app)


def test_a_limit_of_a_group_that_nobody_declares_is_doubtful(app: Horae) -> None:
    app.job("roll-up", every=60, group="night")(work)
    write(app, "[jobs.limits.groups]\nnigth = 3\n")

    assert findings(app) == [
        "jobs.conf:2: no job here declares the group 'nigth' that is limited; did you mean 'night'?"
    ]


def test_a_limit_is_declared_once_over_all_modules(app: Horae) -> None:
    write(app, "")
    others = Blueprint()
    others.limit(3, group="night")
    app.limit(5)
    app.include(others)
    assert limits(app) == {"global": (5, "code"), "group:night": (3, "code")}

    with refused(DefinitionError, "limit_declared_twice", name="group:night"):
        app.limit(4, group="night")
    again = Blueprint()
    again.limit(9)
    with refused(DefinitionError, "limit_declared_twice", name="global"):
        app.include(again)
    with refused(InvalidInput, "limit_for_two_things"):
        app.limit(1, group="a", queue="b")
    with refused(InvalidInput, "limit_outside"):
        app.limit(0, group="a")
