"""Wait for what was enqueued: with a database, in the caller's transaction, and where only a service is reached."""

from pathlib import Path

from horae import Horae, Retry
from horae.errors import JobFailed, NotAllowed, WaitTimeout
from horae.testing import Lab
from tests.support.refusals import refused


def add(a: int, b: int) -> int:
    return a + b


def fail() -> None:
    raise ValueError("no such order")


async def test_an_enqueued_job_is_waited_for_by_itself(tmp_path: Path) -> None:
    app = Horae(f"sqlite:///{tmp_path}/app.db")
    adding, failing = app.job("add")(add), app.job("fail", retry=Retry.none())(fail)

    async with app.running():
        one, many = await adding.enqueue_async(1, 2), adding.enqueue_many([{"a": n, "b": n} for n in range(3)])

        assert await one.result_async("1m") == 3
        assert [await each.result_async(60) for each in many] == [0, 2, 4]
        assert (await app.enqueue("add", a=2, b=2).wait_async(60)).result == 4
        with refused(JobFailed, "job_is_dead", error="ValueError: no such order"):
            await failing.enqueue().result_async(60)
    assert (one.result(0), one.wait(0).state) == (3, "succeeded")
    with refused(WaitTimeout, "job_not_ended_in_time", state="queued"):
        adding.using(delay="1h").enqueue(1, 1).result(0)


def test_a_job_of_an_open_transaction_cannot_be_waited_for_and_says_so(tmp_path: Path) -> None:
    app = Horae(f"sqlite:///{tmp_path}/app.db")
    adding = app.job("add")(add)

    assert app.world.store is not None  # opened, with its tables
    with app.engine.begin() as connection:
        made = adding.using(connection=connection).enqueue(1, 2)
        with refused(NotAllowed, "wait_before_commit"):
            made.wait(0)
    with refused(WaitTimeout, "job_not_ended_in_time", state="queued"):
        made.result(0)


async def test_a_sensitive_result_reaches_the_application_unmasked() -> None:
    app = Horae("sqlite://")

    @app.job("log-in", sensitive=["code"])
    def log_in() -> dict[str, str]:
        return {"code": "1234"}

    async with Lab(app) as lab:
        job = log_in.enqueue()
        await lab.settle()

        assert job.wait(0).result == {"code": "[masked]"}
        assert job.result(0) == {"code": "1234"}
