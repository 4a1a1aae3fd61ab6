"""What is declared and what the three stores keep (S4-9 … S4-13, C-15, C-16)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from horae import Horae
from horae.actions.jobs import claims, endings
from horae.actions.schedules import schedules
from horae.core.schedules.schedule import Schedule
from horae.errors import DefinitionError, StoreUnavailable
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from tests.support.refusals import refused

MakeApp = Callable[[str], Horae]


@pytest.fixture
def make_app(database_url: str, tmp_path: Path) -> Iterator[MakeApp]:
    """Applications on one store, each of which could be a process."""
    (tmp_path / "jobs.conf").touch()
    migrate(create_store_engine(database_url))
    with ExitStack() as closing:

        def make(name: str) -> Horae:
            return closing.enter_context(Horae(database_url, name=name, config=tmp_path / "jobs.conf"))

        yield make


def declaring(app: Horae, *names: str) -> Horae:
    for name in names:
        app.job(name, cron="0 3 * * *")(lambda: None)
    app.declare_schedules()
    return app


def test_processes_that_start_together_declare_the_same_once(make_app: MakeApp) -> None:
    apps = [make_app("shop") for _ in range(6)]
    for app in apps:
        for number in range(5):
            app.job(f"job-{number}", cron="0 3 * * *")(lambda: None)
        _ = app.world

    with ThreadPoolExecutor(len(apps)) as threads:
        answer = list(threads.map(lambda app: [each.number for each in app.declare_schedules()], apps))

    assert len({tuple(numbers) for numbers in answer}) == 1
    assert {each.version for each in schedules.find(apps[0].world)} == {1}


def test_declaring_again_changes_nothing(make_app: MakeApp) -> None:
    app = declaring(make_app("shop"), "clean")
    before = schedules.get(app.world, "clean")

    app.declare_schedules()

    assert schedules.get(app.world, "clean") == before


def test_a_job_that_code_no_longer_declares_is_kept_and_does_not_fire(make_app: MakeApp) -> None:
    """C-15"""
    declaring(make_app("shop"), "old", "kept")

    newer = declaring(make_app("shop"), "kept")

    old = schedules.get(newer.world, "old")
    assert (old.inactive, old.next_fire_at) == ("no longer declared in code", None)
    assert schedules.get(newer.world, "kept").is_active


def test_a_job_that_comes_back_fires_again(make_app: MakeApp) -> None:
    declaring(make_app("shop"), "clean")
    declaring(make_app("shop"))

    back = declaring(make_app("shop"), "clean")

    assert schedules.get(back.world, "clean").next_fire_at is not None


def test_applications_that_share_a_store_leave_each_other_alone(make_app: MakeApp) -> None:
    shop = declaring(make_app("shop"), "clean")

    declaring(make_app("billing"), "invoice")

    assert schedules.get(shop.world, "clean").is_active


# -- document 004 ------------------------------------------------------------------------------------------------


def seeded(make_app: MakeApp) -> Horae:
    app = make_app("shop")
    app.job("sync")(lambda full=False: None)
    app.seed_schedules(
        [
            {"id": "sync", "cron": "0 18 * * 1-5", "zone": "Asia/Shanghai"},
            {"id": "sync-all", "handler": "sync", "cron": "0 2 * * 6", "arguments": {"full": True}},
        ]
    )
    app.declare_schedules()
    return app


def test_defaults_are_seeded_once_and_changes_survive_a_restart(make_app: MakeApp) -> None:
    """S4-9, S4-13"""
    app = seeded(make_app)
    schedules.change(app.world, "sync", {"expression": "0 19 * * 1-5", "enabled": False})

    again = seeded(make_app)

    kept = schedules.get(again.world, "sync")
    assert (kept.expression, kept.enabled, kept.zone) == ("0 19 * * 1-5", False, "Asia/Shanghai")
    assert schedules.get(again.world, "sync-all").payload == {"full": True}


def test_persisted_jobs_run_what_the_registry_knows_and_keep_the_rest(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    """S4-10 … S4-12, C-15"""
    seeded(make_app)
    app = make_app("shop")

    assert app.load_persisted_jobs({"other": lambda: None}) == []
    assert "unknown handler sync" in caplog.text
    kept = schedules.get(app.world, "sync")
    assert (kept.is_active, kept.next_fire_at) == (False, None)
    assert "unknown handler 'sync'" in (kept.inactive or "")

    assert app.load_persisted_jobs({"sync": lambda full=False: None}) == ["sync", "sync-all"]
    assert schedules.get(app.world, "sync").next_fire_at is not None


def test_a_disabled_row_is_not_loaded(make_app: MakeApp) -> None:
    """S4-10"""
    app = seeded(make_app)
    schedules.change(app.world, "sync", {"enabled": False})

    assert app.load_persisted_jobs() == ["sync-all"]


def test_a_store_that_is_down_is_reported_and_does_not_end_the_start(
    sqlite_database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """S4-25"""
    app = Horae(sqlite_database_url, name="shop")

    def away() -> None:
        raise StoreUnavailable("asleep")

    monkeypatch.setattr(app, "_open", away)

    assert app.load_persisted_jobs({"sync": lambda: None}) == []
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert app.plan().loads_persisted


def test_a_seed_for_a_job_that_nobody_declares_is_refused_when_the_application_starts(make_app: MakeApp) -> None:
    app = make_app("shop")
    app.seed_schedules([{"id": "sink", "cron": "0 3 * * *"}])

    with refused(DefinitionError, "declarations_invalid", reasons=["seed_handler_unknown"]):
        app.declare_schedules()


def test_seeds_may_come_before_the_registry_that_knows_their_handlers(make_app: MakeApp) -> None:
    """S4-9 to S4-11: seed, then load; the first deployment runs what it seeded."""
    app = make_app("shop")
    app.seed_schedules(
        [
            {"id": "sync_daily", "cron": "0 18 * * *", "zone": "Asia/Shanghai", "arguments": {"full": True}},
            {"id": "sync_basic", "cron": "0 19 * * *", "zone": "Asia/Shanghai"},
        ]
    )

    first = app.load_persisted_jobs({"sync_daily": lambda full=False: None})
    second = app.load_persisted_jobs({"sync_basic": lambda: None})

    assert (first, second) == (["sync_daily"], ["sync_basic", "sync_daily"])
    assert schedules.get(app.world, "sync_daily").payload == {"full": True}
    again = make_app("shop")
    again.seed_schedules([{"id": "sync_daily", "cron": "0 1 * * *"}])
    assert again.load_persisted_jobs({"sync_daily": lambda full=False: None, "sync_basic": lambda: None}) == second
    assert schedules.get(again.world, "sync_daily").expression == "0 18 * * *"


def test_a_seed_whose_arguments_do_not_fit_its_handler_is_refused_with_its_name(make_app: MakeApp) -> None:
    app = make_app("shop")
    app.seed_schedules([{"id": "sync", "cron": "0 18 * * *", "arguments": {"ful": True}}])
    app.job("sync")(lambda full=False: None)

    with refused(DefinitionError, "declarations_invalid", reasons=["scheduled_arguments_missing"]):
        app.declare_schedules()


@pytest.mark.parametrize(
    ("seed", "reason"),
    [
        ({}, "seed_without_id"),
        ({"id": "sync"}, "seed_without_times"),
        ({"id": "sync", "corn": "x"}, "seed_key_unknown"),
        ("sync", "seed_no_mapping"),
    ],
)
def test_a_seed_that_cannot_be_is_refused(sqlite_database_url: str, seed: Any, reason: str) -> None:
    app = Horae(sqlite_database_url)
    app.job("sync")(lambda: None)

    with refused(DefinitionError, reason):
        app.seed_schedules([seed])


def test_a_snapshot_tells_all_jobs_scheduled_stored_and_only_asked_for(make_app: MakeApp) -> None:
    """S3-18, S3-19."""
    app, other = make_app("shop"), make_app("other")
    app.job("nightly", cron="0 3 * * *")(lambda: None)
    app.job("mail")(lambda: None)
    app.job("sync")(lambda: None)
    app.seed_schedules([{"id": "sync-daily", "handler": "sync", "cron": "0 18 * * *"}])
    declaring(other, "foreign")
    app.declare_schedules()
    schedules.create(app.world, Schedule("by-hand", "nightly", "cron", "0 4 * * *"))
    for name in ("mail", "nightly"):
        app.trigger(name)
    for job in claims.pull(app.world, worker_id="w"):
        endings.ack(app.world, job.id, job.token)

    answer = {status.id: (status.schedule, status.last_result, status.run_count) for status in app.snapshot()}

    assert list(answer) == ["nightly", "by-hand", "sync-daily", "mail"]
    assert answer["nightly"] == ("At 03:00 every day (UTC)", "SUCCESS", 1)
    assert answer["mail"] == ("when enqueued or triggered", "SUCCESS", 1)
    assert answer["sync-daily"][1:] == (None, 0)
