"""``horae check``, ``horae config show`` and ``horae reload`` (S3-2, C-16)."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Ended, Process

SHOP = """
from horae import Context, Horae

app = Horae("sqlite:///shop.db")


@app.job("clean", cron="0 3 * * *", lock_ttl=60)
def clean(ctx: Context) -> None: ...


@app.job("sync", every=300)
def sync(ctx: Context) -> None: ...
"""


@pytest.fixture
def shop(project: Path) -> Path:
    (project / "shop.py").write_text(SHOP)
    return project


def test_a_sound_application_has_no_findings(horae: Command, shop: Path) -> None:
    ended = horae("check", "shop:app")

    assert (ended.code, ended.out) == (0, "2 jobs, 0 findings\n")
    assert not (shop / "shop.db").exists()


def test_an_application_without_jobs_is_refused(horae: Command, shop: Path) -> None:
    """S3-13: probably a module was not imported."""
    (shop / "shop.py").write_text('from horae import Horae\n\napp = Horae("sqlite:///shop.db")\n')

    ended = horae("check", "shop:app")

    assert ended.code == 6
    assert ended.out.startswith("error: shop:app: no job is declared here; write @app.job(…)")
    assert ended.out.endswith("0 jobs, 1 finding\n")


def test_a_check_lists_every_problem_of_code_and_file(horae: Command, shop: Path) -> None:
    (shop / "shop.py").write_text(
        SHOP
        + """
app.job("bad-cron", cron="0 25 * * *")(lambda: None)
app.job("both", cron="0 3 * * *", every=5)(lambda: None)
app.job("clean", every=5)(lambda: None)
"""
    )
    (shop / "jobs.conf").write_text('[[jobs.items]]\nid = "clen"\n[[jobs.items]]\nid = "sync"\nfixdRate = 5\n')

    ended = horae("check", "shop:app", "--json")

    assert ended.code == 6
    found = ended.json["check"]["findings"]
    assert [each["where"].rpartition("/")[2] for each in found] == [
        "bad-cron", "both", "clean", "jobs.conf:5", "jobs.conf:2",
    ]  # fmt: skip


def test_a_warning_is_a_finding_only_where_that_is_wanted(horae: Command, shop: Path) -> None:
    (shop / "jobs.conf").write_text('[[jobs.items]]\nid = "clean"\ninitialDelay = 5\n')

    assert horae("check", "shop:app").code == 0
    assert "warning:" in horae("check", "shop:app").out
    assert horae("check", "shop:app", "--strict").code == 6


def test_a_check_needs_to_know_the_application(horae: Command) -> None:
    horae("check", "--json").assert_refused(2, "application_unnamed", {"command": "check"})


def test_config_show_tells_where_each_value_comes_from(
    horae: Command, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORAE_LEASE", "45s")
    (shop / "jobs.conf").write_text('[[jobs.items]]\nid = "clean"\ncron = "0 4 * * *"\n')
    horae("reload", "shop:app")
    horae("schedule", "change", "clean", "--tz", "Asia/Shanghai", "--db", "sqlite:///shop.db")

    answer = horae("config", "show", "shop:app", "--origin", "--json").json["config"]

    assert answer["settings"]["lease"] == {"value": "45s", "origin": "environment HORAE_LEASE"}
    clean = {name: each["origin"] for name, each in answer["jobs"]["clean"].items()}
    assert (clean["zone"], clean["schedule"], clean["lock_ttl"], clean["misfire"]) == ("api", "file", "code", "default")


def test_config_show_masks_passwords(horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_DATABASE_URL", "postgresql://ann:hush@db/horae")
    for name in ("HORAE_JWT_SECRET", "HORAE_SECRET_KEY", "HORAE_TOKEN"):
        monkeypatch.setenv(name, "hush")

    ended = horae("config", "show")

    assert "hush" not in ended.out
    assert "postgresql://ann:***@db/horae" in ended.out


def test_config_show_works_before_there_is_a_database(horae: Command, shop: Path) -> None:
    ended = horae("config", "show", "shop:app")

    assert ended.code == 0
    assert "are not shown" in ended.err
    assert not (shop / "shop.db").exists()


def test_a_reload_says_what_it_changed(horae: Command, shop: Path) -> None:
    assert "2 of 2 schedules changed" in horae("reload", "shop:app").out
    (shop / "jobs.conf").write_text('[[jobs.items]]\nid = "clean"\nenabled = false\n')

    ended = horae("reload", "shop:app")

    assert ended.out == "clean: enabled True → False\n1 of 2 schedules changed\n"


def test_a_reload_of_a_broken_file_changes_nothing(horae: Command, shop: Path) -> None:
    (shop / "jobs.conf").write_text("[jobs")

    ended = horae("reload", "shop:app")

    assert ended.code == 78
    assert "jobs.conf" in ended.err


def test_a_running_worker_follows_the_file_on_sighup(horae: Command, shop: Path, start: Callable[..., Process]) -> None:
    worker = start("worker", "shop:app", "--json")
    worker.until("started")
    (shop / "other.conf").write_text('[[jobs.items]]\nid = "clean"\nenabled = false\n')
    (shop / "other.conf").rename(shop / "jobs.conf")

    worker.started.send_signal(signal.SIGHUP)
    worker.until("reloading")
    worker.started.send_signal(signal.SIGINT)
    assert worker.ended().code == 0


def test_a_worker_refuses_an_application_that_cannot_work(horae: Command, shop: Path) -> None:
    """C-17"""
    (shop / "jobs.conf").write_text('[[jobs.items]]\nid = "nobody"\n')

    ended = horae("worker", "shop:app")

    assert ended.code == 78
    assert "no job 'nobody'" in ended.err


def test_settings_stand_in_columns_however_long_their_names(horae: Command) -> None:
    lines = horae("config", "show").out.splitlines()

    column = len("alert_stalled_after  ")
    assert all(line[column - 2 : column] == "  " and line[column] != " " for line in lines)


def test_a_reload_tells_which_limits_changed(horae: Command, shop: Path) -> None:
    """S3-53."""
    horae("reload", "shop:app")
    (shop / "jobs.conf").write_text("[jobs.limits]\nglobal = 5\n")

    ended = horae("reload", "shop:app")

    assert ended.out == "limit global: none → 5\n0 of 2 schedules changed\n"
    assert horae("reload", "shop:app", "--json").json["reload"]["limits"] == {}


TWO_KEYS = """
from horae import Horae

app = Horae("sqlite:///shop.db")


@app.job("both", concurrency_key="to:{to}", debounce=5)
def both(to: str) -> None: ...


@app.job("tenants", concurrency_key="to:{to}", debounce=5, tenants=True)
def tenants(to: str) -> None: ...


@app.job("one", concurrency_key="to:{to}")
def one(to: str) -> None: ...
"""


def severities(ended: Ended) -> dict[str, str]:
    return {each["where"]: each["severity"] for each in ended.json["check"]["findings"]}


def test_two_kinds_of_key_are_a_warning_and_an_error_where_the_database_is_in_a_cluster(
    horae: Command, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "shop.py").write_text(TWO_KEYS)
    monkeypatch.delenv("HORAE_DATABASE_URL", raising=False)

    without = horae("check", "shop:app", "--json")
    assert (without.code, severities(without)) == (0, {"both": "warning", "tenants": "warning"})
    assert "shard_key=" in without.json["check"]["findings"][0]["text"]
    assert not (shop / "shop.db").exists()

    horae("db", "migrate", "--db", "sqlite:///one.db")
    single = horae("check", "shop:app", "--db", "sqlite:///one.db", "--json")
    assert (single.code, severities(single)) == (0, {})

    horae("cluster", "init", "first", "--db", "sqlite:///one.db")
    found = horae("check", "shop:app", "--db", "sqlite:///one.db", "--json")
    assert (found.code, severities(found)) == (6, {"both": "error", "tenants": "warning"})
    monkeypatch.setenv("HORAE_DATABASE_URL", "sqlite:///one.db")
    assert horae("check", "shop:app").code == 6

    away = horae("check", "shop:app", "--db", "sqlite:///missing.db", "--json")
    assert (away.code, severities(away)) == (0, {"both": "warning", "tenants": "warning"})
