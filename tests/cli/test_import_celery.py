"""`horae import celery` and `horae import django-celery-beat`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from horae.cli.imports.celery import read_beat
from tests.cli.conftest import Command

EVERY_90 = "Every 1 hour and 30 minutes, first after 1 hour and 30 minutes"
PROJECT = """
from datetime import timedelta
from zoneinfo import ZoneInfo


class crontab:  # with the attributes of celery.schedules.crontab
    def __init__(self, minute="*", hour="*", day_of_week="*", day_of_month="*", month_of_year="*"):
        self._orig_minute, self._orig_hour, self._orig_day_of_week = minute, hour, day_of_week
        self._orig_day_of_month, self._orig_month_of_year = day_of_month, month_of_year


class solar:
    event, lat, lon = "sunset", 1.0, 2.0


class interval:
    run_every, relative = timedelta(hours=2), True


class Task:
    def run(self, left, right=1):
        ...


class Conf:
    timezone = ZoneInfo("Asia/Shanghai")
    beat_schedule = {
        "morning": {"task": "proj.add", "schedule": crontab(minute=30, hour="7", day_of_week="Monday-friday"),
                    "args": (16, 16), "options": {"queue": "mail", "expires": 30}},
        "both": {"task": "proj.both", "schedule": crontab(0, {9, 17}, "1", "1-7")},
        "pulse": {"task": "proj.pulse", "schedule": 30.0, "kwargs": {"x": 1}},
        "rounded": {"task": "proj.pulse", "schedule": interval()},
        "sunset": {"task": "proj.sun", "schedule": solar()},
        "positional": {"task": "proj.unknown", "schedule": 5, "args": [1]},
        "wrong": {"task": "proj.add", "schedule": 5, "args": [1, 2, 3]},
    }


class app:
    conf, tasks = Conf(), {"proj.add": Task()}
"""


def test_a_beat_schedule_is_brought_without_celery(horae: Command, environment: Path) -> None:
    (environment / "proj_of_celery.py").write_text(PROJECT)

    ended = horae("import", "celery", "proj_of_celery:app", "--apply", "--json")

    found = {each["key"]: each for each in ended.json["entries"]}
    morning = found["morning"]["schedule"]
    assert ended.json["counts"] == {"new": 4, "changed": 0, "unchanged": 0, "refused": 3}
    assert found["morning"]["words"] == "At 07:30, Monday to Friday (Asia/Shanghai)"
    assert (morning["payload"], morning["queue"]) == ({"left": 16, "right": 16}, "mail")
    assert {"options_dropped", "named_arguments"} <= {each["code"] for each in found["morning"]["notes"]}
    assert found["both"]["schedule"]["cron"] == "0 17,9 1-7 * 1"
    assert found["both"]["schedule"]["day_match"] == "and"
    assert "relative" in {each["code"] for each in found["rounded"]["notes"]}
    problems = {key: found[key]["problem"]["code"] for key in ("sunset", "positional", "wrong")}
    assert problems == {"sunset": "solar", "positional": "arguments_positional", "wrong": "arguments_not_fitting"}
    assert horae("schedule", "show", "pulse", "--json").json["schedule"]["initial_delay"] == 30
    again = horae("import", "celery", "proj_of_celery:app", "--apply", "--json")
    assert again.json["counts"] == {"new": 0, "changed": 0, "unchanged": 4, "refused": 3}


@pytest.mark.parametrize("schedule", [None, True, "hourly", object(), {}, {"minutes": 5}, -5, 0])
def test_a_schedule_of_another_kind_is_refused_in_words(schedule: Any, horae: Command, environment: Path) -> None:
    from horae.cli.imports.plans import describe, plan

    (planned,) = plan(None, read_beat({"odd": {"task": "do", "schedule": schedule}}, None), "system")

    assert planned.status == "refused"
    assert planned.entry.refusal is not None
    assert describe(planned.entry.refusal, "en")
    assert describe(planned.entry.refusal, "zh")


def test_what_has_no_beat_schedule_is_refused(horae: Command, environment: Path) -> None:
    (environment / "empty_of_celery.py").write_text("app = 5\n")
    (environment / "list.json").write_text("[]")

    horae("import", "celery", "empty_of_celery:app", "--json").assert_refused(2, "import_no_beat_schedule")
    horae("import", "celery", "empty_of_celery:other", "--json").assert_refused(2, "import_target_missing")
    horae("import", "celery", "list.json", "--json").assert_refused(2, "import_no_beat_schedule", {"type": "list"})


def tables_of_django(url: str) -> None:
    """Make the tables of django-celery-beat 2.9, as far as they are read, with a row of each kind."""
    meta = sa.MetaData()
    number, text, moment = sa.Integer, sa.String(200), sa.DateTime(timezone=True)
    crontab = sa.Table(
        "django_celery_beat_crontabschedule", meta, sa.Column("id", number, primary_key=True),
        *(sa.Column(each, text) for each in ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")),
        sa.Column("timezone", text),
    )  # fmt: skip
    interval = sa.Table(
        "django_celery_beat_intervalschedule", meta, sa.Column("id", number, primary_key=True),
        sa.Column("every", number), sa.Column("period", text),
    )  # fmt: skip
    clocked = sa.Table(
        "django_celery_beat_clockedschedule", meta, sa.Column("id", number, primary_key=True),
        sa.Column("clocked_time", moment),
    )  # fmt: skip
    task = sa.Table(
        "django_celery_beat_periodictask", meta, sa.Column("id", number, primary_key=True),
        *(sa.Column(each, text) for each in ("name", "task", "args", "kwargs", "queue", "exchange")),
        *(sa.Column(f"{each}_id", number) for each in ("crontab", "interval", "clocked", "solar")),
        *(sa.Column(each, sa.Boolean) for each in ("enabled", "one_off")),
        *(sa.Column(each, moment) for each in ("start_time", "expires")),
        sa.Column("priority", number),
    )  # fmt: skip
    engine = sa.create_engine(url)
    meta.create_all(engine)

    base = {"task": "shop.do", "args": "[]", "kwargs": '{"shop": 7}', "enabled": True, "one_off": False}
    rows: list[dict[str, Any]] = [
        {"name": "morning", "crontab_id": 1, "queue": "mail", "priority": 5},
        {"name": "pulse", "interval_id": 1, "one_off": True, "expires": datetime(2040, 1, 1, tzinfo=UTC)},
        {"name": "once", "clocked_id": 1, "one_off": True, "enabled": False},
        {"name": "sunset", "solar_id": 1},
        {"name": "broken", "interval_id": 1, "kwargs": "{"},
        {"name": "positional", "interval_id": 1, "args": "[1]"},
        {"name": "celery.backend_cleanup", "task": "celery.backend_cleanup", "crontab_id": 1},
    ]
    crontab_row = {
        "id": 1,
        "minute": "30",
        "hour": "7",
        "day_of_month": "*",
        "month_of_year": "*",
        "day_of_week": "1-5",
    }
    with engine.begin() as connection:
        connection.execute(crontab.insert(), [{**crontab_row, "timezone": "Asia/Shanghai"}])
        connection.execute(interval.insert(), [{"id": 1, "every": 90, "period": "minutes"}])
        connection.execute(clocked.insert(), [{"id": 1, "clocked_time": datetime(2039, 1, 7, 6, tzinfo=UTC)}])
        for number_, row in enumerate(rows, 1):
            connection.execute(task.insert(), [{"id": number_, **base, **row}])
    engine.dispose()


def test_periodic_tasks_are_read_from_the_tables_of_django_celery_beat(
    horae: Command, environment: Path, database_url: str
) -> None:
    tables_of_django(database_url)

    ended = horae("import", "django-celery-beat", database_url, "--apply", "--db", "sqlite:///horae.db", "--json")

    found = {each["key"]: each for each in ended.json["entries"]}
    pulse = horae("schedule", "show", "pulse", "--db", "sqlite:///horae.db", "--json").json["schedule"]
    once = horae("schedule", "show", "once", "--db", "sqlite:///horae.db", "--json").json["schedule"]
    assert ended.json["counts"] == {"new": 3, "changed": 0, "unchanged": 0, "refused": 3}
    assert found["morning"]["words"] == "At 07:30, Monday to Friday (Asia/Shanghai)"
    assert found["morning"]["schedule"]["payload"] == {"shop": 7}
    assert (pulse["words"], pulse["max_fires"], pulse["ends_at"][:10]) == (EVERY_90, 1, "2040-01-01")
    assert (once["expression"][:16], once["enabled"]) == ("2039-01-07T06:00", False)
    problems = {key: found[key]["problem"]["code"] for key in ("sunset", "broken", "positional")}
    assert problems == {"sunset": "solar", "broken": "arguments_not_json", "positional": "arguments_positional"}
    again = horae("import", "django-celery-beat", database_url, "--db", "sqlite:///horae.db", "--json")
    assert again.json["counts"]["unchanged"] == 3


def test_a_database_without_these_tables_is_refused_and_not_made(horae: Command, environment: Path) -> None:
    (environment / "empty.db").touch()

    horae("import", "django-celery-beat", "sqlite:///empty.db", "--json").assert_refused(2, "import_table_missing")
    horae("import", "django-celery-beat", "sqlite:///no.db", "--json").assert_refused(3, "database_missing_here")
    assert not (environment / "no.db").exists()
