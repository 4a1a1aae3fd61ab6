"""The Lab without asyncio, and the plug-in of pytest."""

from __future__ import annotations

import pytest

from horae import Horae, Retry
from horae.testing import SyncLab

pytest_plugins = ["pytester"]
PLUGIN = 'pytest_plugins = ["horae.testing.pytest"]'
INI = "[pytest]\nhorae_app = {}\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"
APP = """
from horae import Horae, Retry

app = Horae("sqlite:////dev/null/no.db")

@app.job("receipt", retry=Retry.fixed("5m", attempts=2))
def receipt(order_id: int) -> str:
    return f"receipt {order_id}"

@app.job("digest", cron="0 6 * * *")
def digest() -> None: ...
"""
TESTS = """
import pytest
from shop import app, digest, receipt

def test_a_receipt_is_sent_again(horae_lab):
    with horae_lab.breaking(receipt, OSError("down")):
        job = receipt.enqueue(order_id=7)
        horae_lab.settle()
    horae_lab.advance("5m")
    assert horae_lab.job(job).result == job.result(0) == "receipt 7"

@pytest.mark.horae_lab(starts_at="2030-01-07T05:59:00Z", seed=3)
def test_the_digest_fires(horae_lab):
    horae_lab.advance("2m")
    assert horae_lab.fired(digest) == ["2030-01-07T06:00:00Z"]

async def test_the_same_with_asyncio(horae_async_lab):
    async with horae_async_lab as lab:
        job = receipt.enqueue(order_id=8)
        await lab.settle()
        assert lab.state_of(job) == "succeeded"
"""


def test_a_lab_without_asyncio_lives_through_retries_crashes_and_schedules() -> None:
    app = Horae("sqlite:////dev/null/no.db")

    @app.job("receipt", retry=Retry.fixed("5m", attempts=2))
    async def receipt(order_id: int) -> int:
        return order_id

    with SyncLab(app, starts_at="2030-01-07T06:00:00Z") as lab:
        with lab.breaking(receipt, OSError("down")):
            job = receipt.enqueue(order_id=42)
            lab.settle()
        assert (lab.state_of(job), len(lab.runs(job))) == ("queued", 1)
        lab.crash_next(receipt)
        lab.until(lambda: lab.state_of(job) == "succeeded", within="1h")

        assert [run.outcome for run in lab.runs(job)] == ["failed", "lost", "succeeded"]
        assert [each.id for each in lab.enqueued(receipt)] == [job.id]
        assert (lab.now, lab.trace[-1].event) == (lab.clock.now(), "acked")
    with pytest.raises(RuntimeError, match="inside its block"):
        SyncLab(app).settle()


async def test_a_lab_without_asyncio_says_what_to_use_where_a_loop_runs() -> None:
    with pytest.raises(RuntimeError, match="async with Lab"), SyncLab(Horae("sqlite://")):
        pass


def test_the_fixtures_of_the_plug_in_run_the_application_that_the_option_names(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(shop=APP, test_shop=TESTS, conftest=PLUGIN)
    pytester.makeini(INI.format("shop:app"))

    pytester.runpytest_inprocess("-p", "no:randomly").assert_outcomes(passed=3)


@pytest.mark.parametrize(("option", "words"), [("", "names no application"), ("shop:nothing", "has no application")])
def test_an_option_that_names_no_application_says_how_to_write_it(
    pytester: pytest.Pytester, option: str, words: str
) -> None:
    pytester.makepyfile(shop=APP, test_shop="def test_it(horae_lab): ...", conftest=PLUGIN)
    pytester.makeini(INI.format(option))

    result = pytester.runpytest_inprocess()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{words}*"])
