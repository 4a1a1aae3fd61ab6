"""What a handler reads of the jobs before it, and a batch as an application uses it."""

from horae import Context, Horae, Retry
from horae.testing import Lab


async def test_a_handler_reads_the_results_of_its_parents_in_order() -> None:
    app = Horae("sqlite://")

    @app.job("part")
    def part(n: int) -> int:
        return n * 10

    @app.job("sum")
    async def total(ctx: Context) -> list[object]:
        found = ctx.parents()
        assert found == await ctx.parents_async()
        return [each.result for each in found]

    async with Lab(app) as lab:
        parts = part.enqueue_many([{"n": n} for n in range(3)])
        job = total.using(after=parts[::-1]).enqueue()
        await lab.settle()

        assert lab.job(job).result == [20, 10, 0]


async def test_a_batch_shows_its_progress_and_runs_one_callback_for_its_outcome() -> None:
    app = Horae("sqlite://")

    @app.job("part", retry=Retry.none())
    def part(n: int) -> int:
        return 10 // n

    @app.job("report")
    def report(ctx: Context, outcome: str) -> list[object]:
        return [outcome, *(each.result if each.error is None else each.error.split(":")[0] for each in ctx.parents())]

    async with Lab(app) as lab:
        for numbers, outcome in (([1, 2], "well"), ([1, 0], "badly")):
            made = app.batch(
                [part.request(n) for n in numbers],
                name="parts",
                on_success=report.request("well"),
                on_failure=report.request("badly"),
            )
            assert made.progress == 0.0
            await lab.settle()

            ended = await made.wait_async(0)
            assert (made.progress, ended.failed, len(list(made.jobs()))) == (1.0, numbers.count(0), 2)
            callback = ended.on_success if outcome == "well" else ended.on_failure
            assert callback is not None
            assert lab.job(callback).result == (
                ["well", 10, 5] if outcome == "well" else ["badly", 10, "ZeroDivisionError"]
            )
        assert len([job for job in lab.enqueued(report) if job.state == "succeeded"]) == 2
