"""Days told in virtual time: hours that are missing or come twice, a process that slept, policies that differ."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from horae import Context, Horae, Retry
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.testing import Lab
from horae.testing.builders import a_schedule

PARIS = ZoneInfo("Europe/Paris")
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def local(instants: list[str]) -> list[str]:
    return [datetime.fromisoformat(each).astimezone(PARIS).strftime("%d %H:%M") for each in instants]


def an_app() -> Horae:
    app = Horae("sqlite://")

    @app.job("morning-digest", cron="0 7 * * 1-5", zone="Europe/Paris")
    async def morning_digest(ctx: Context) -> None: ...

    @app.job("night-watch", cron="30 2 * * *", zone="Europe/Paris")
    async def night_watch(ctx: Context) -> None: ...

    @app.job("half-hourly", cron="*/30 * * * *", zone="Europe/Paris")
    async def half_hourly(ctx: Context) -> None: ...

    return app


async def test_time_moves_from_fire_to_fire() -> None:
    async with Lab(an_app(), starts_at="2030-01-07T05:59:00Z") as lab:
        await lab.advance(timedelta(minutes=2))

        assert lab.fired("morning-digest") == ["2030-01-07T06:00:00Z"]
        assert [str(line) for line in lab.trace if line.handler == "morning-digest"] == [
            "2030-01-07T06:00:00Z enqueued  job_1 morning-digest",
            "2030-01-07T06:00:00Z pulled    job_1 morning-digest",
            "2030-01-07T06:00:00Z acked     job_1 morning-digest succeeded",
        ]


async def test_a_weekend_has_no_working_days() -> None:
    async with Lab(an_app(), starts_at="2030-01-10T12:00:00Z") as lab:
        await lab.advance(timedelta(days=5))

        assert local(lab.fired("morning-digest")) == ["11 07:00", "14 07:00", "15 07:00"]


async def test_in_spring_the_missing_hour_fires_once_after_the_gap() -> None:
    """C-5, fault 28: 02:30 does not exist on 31 March 2030; the first instant after the gap is 03:00."""
    async with Lab(an_app(), starts_at="2030-03-29T23:00:00Z") as lab:  # Saturday, 00:00 in Paris
        await lab.advance(3 * DAY)

        assert local(lab.fired("night-watch")) == ["30 02:30", "31 03:00", "01 02:30"]
        day = [each for each in local(lab.fired("half-hourly")) if each.startswith("31")]
        assert len(day) == 46, "a day of 23 hours has 46 half hours"
        assert not [each for each in day if each.startswith("31 02")]


async def test_in_autumn_the_repeated_hour_fires_once_and_steps_follow_elapsed_time() -> None:
    """C-5, fault 29: 02:30 comes twice on 27 October 2030."""
    async with Lab(an_app(), starts_at="2030-10-25T22:00:00Z") as lab:
        await lab.advance(3 * DAY)

        assert lab.fired("night-watch") == ["2030-10-26T00:30:00Z", "2030-10-27T00:30:00Z", "2030-10-28T01:30:00Z"]
        day = [each for each in local(lab.fired("half-hourly")) if each.startswith("27")]
        assert len(day) == 50, "a day of 25 hours has 50 half hours"
        assert day.count("27 02:30") == 2


async def test_a_clock_that_jumps_merges_what_it_jumped_over() -> None:
    """Fault 25: after a jump nothing is early, nothing is doubled, and every fire is told."""
    async with Lab(an_app(), starts_at="2030-01-07T00:00:00Z") as lab:
        await lab.advance(timedelta(hours=1))
        lab.clock.advance(timedelta(hours=10))  # nobody was awake
        await lab.advance(timedelta(hours=1))

        answer = [(fire.verdict, fire.count) for fire in lab.fires("half-hourly")]
        assert answer == [("ran", 1), ("ran", 1), ("merged", 19), ("ran", 1), ("ran", 1), ("ran", 1)]
        assert sum(count for _, count in answer) == 24, "twelve hours of half hours"


async def test_three_days_of_downtime_recover_by_policy() -> None:
    """Fault 35, small; the large one is below."""
    app = Horae("sqlite://")

    @app.job("work", retry=Retry.none())
    async def work(ctx: Context) -> None: ...

    async with Lab(app, starts_at="2030-01-07T00:00:00Z") as lab:
        for misfire, more in (("fire_once", {}), ("skip", {}), ("catch_up", {"catch_up": 5, "spread": 5 * MINUTE})):
            schedules.create(lab.world, a_schedule(misfire, "0 * * * *", handler="work", misfire=misfire, **more))
        lab.clock.advance(3 * DAY + timedelta(minutes=30))
        await lab.advance(timedelta(minutes=29))

        answer = {key: [(f.verdict, f.count) for f in lab.fires(key)] for key in ("fire_once", "skip", "catch_up")}
        assert answer == {
            "fire_once": [("merged", 71), ("ran", 1)],
            "skip": [("skipped", 71), ("skipped", 1)],
            "catch_up": [("skipped", 67), *[("ran", 1)] * 5],
        }
        started = [run.started_at for job in lab.enqueued("work") for run in lab.runs(job) if job.fire_at]
        minutes = sorted(round((each - started[0]) / MINUTE) for each in started if each and started[0])
        assert minutes == [0, 0, 1, 2, 3, 4], "the herd is spread"


async def test_a_story_of_leaders_and_followers_survives_a_failing_night() -> None:
    app = Horae("sqlite://")

    @app.job("load", cron="0 1 * * *")
    async def load(ctx: Context) -> None: ...

    @app.job("clean", cron="0 2 * * *")
    async def clean(ctx: Context) -> None: ...

    @app.job("report", after=["load", "clean"])
    async def report(ctx: Context) -> None: ...

    async with Lab(app, starts_at="2030-01-07T00:00:00Z") as lab:
        await lab.advance(DAY)
        with lab.breaking("clean", RuntimeError("no room")):
            await lab.advance(DAY)
        assert lab.fired("report") == ["2030-01-07T02:00:00Z"]

        await lab.advance(DAY)

        assert lab.fired("report") == ["2030-01-07T02:00:00Z", "2030-01-09T02:00:00Z"]


async def test_a_fixed_delay_counts_from_the_end_of_slow_runs() -> None:
    """S3-24: document 003's rhythm, without drift in the pauses."""
    app = Horae("sqlite://")

    @app.job("poll", every=60, anchor="finish")
    async def poll(ctx: Context) -> None: ...

    async with Lab(app, starts_at="2030-01-07T00:00:00Z") as lab:

        async def slow(ctx: Context) -> None:
            await lab.sleep(25)

        with lab.replacing("poll", slow):
            await lab.advance(timedelta(minutes=4))

        seconds = [
            (datetime.fromisoformat(each) - datetime(2030, 1, 7, tzinfo=UTC)).seconds for each in lab.fired("poll")
        ]
        assert seconds == [0, 85, 170]


async def test_a_crash_in_the_middle_of_an_occurrence_neither_loses_nor_repeats_it() -> None:
    async with Lab(an_app(), starts_at="2030-01-07T05:59:00Z") as lab:
        lab.crash_next("morning-digest")
        await lab.advance(timedelta(minutes=5))

        [job] = lab.enqueued("morning-digest")
        assert [run.outcome for run in lab.runs(job)] == ["lost", "succeeded"]
        assert lab.fired("morning-digest") == ["2030-01-07T06:00:00Z"]


async def test_a_run_by_hand_leaves_the_rhythm_alone() -> None:
    async with Lab(an_app(), starts_at="2030-01-07T05:00:00Z") as lab:
        firing.trigger(lab.world, "morning-digest")
        await lab.advance(timedelta(hours=2))

        assert lab.fired("morning-digest") == ["2030-01-07T05:00:00Z", "2030-01-07T06:00:00Z"]


@pytest.mark.parametrize("zone", ["Australia/Lord_Howe", "Antarctica/Troll"])
async def test_a_year_of_nights_has_one_fire_each(zone: str) -> None:
    """Faults 28 to 30: whatever the zone does, a daily schedule fires 365 times."""
    app = Horae("sqlite://")

    @app.job("nightly", cron="15 2 * * *", zone=zone)
    async def nightly(ctx: Context) -> None: ...

    async with Lab(app, starts_at="2030-01-01T00:00:00Z") as lab:
        await lab.advance(365 * DAY)

        fired = [datetime.fromisoformat(each) for each in lab.fired("nightly")]
        days = [each.astimezone(ZoneInfo(zone)).date() for each in fired]
        assert len(set(days)) == len(days) == 365
