"""A program that serves jobs inside itself: ``python -m tests.journeys.embedded``, ended by Ctrl-C."""

import asyncio
import logging
import os
import signal
from datetime import timedelta

from horae import Context, Horae, Retry
from tests.journeys.program import PATIENCE, write_down
from tests.support.waiting import pass_time, pass_time_in_thread, wait_until

app = Horae(os.environ["HORAE_DATABASE_URL"], name="embedded")
NEVER = Retry.none()
tasks: list[asyncio.Task[object]] = []  # the one that runs main


@app.job("wait", retry=NEVER)
async def wait(ctx: Context) -> None:
    write_down("started", ctx)
    await asyncio.Event().wait()


@app.job("limited", retry=NEVER, timeout=PATIENCE)
async def limited(ctx: Context) -> None:
    write_down("started", ctx)
    await asyncio.Event().wait()


@app.job("thread", retry=NEVER)
def thread(ctx: Context) -> None:
    write_down("started", ctx)
    pass_time_in_thread(PATIENCE)


@app.job("process", retry=NEVER, executor="process")
def process(ctx: Context) -> None:
    write_down("started", ctx)
    pass_time_in_thread(PATIENCE)


@app.job("block", retry=NEVER)
async def block(ctx: Context) -> None:
    """Blocks the loop, so that the second Ctrl-C is raised in the middle of this function."""
    write_down("started", ctx)
    wait_until(tasks[0].cancelling)
    write_down("interrupted", ctx)
    pass_time_in_thread(PATIENCE)


@app.job("stop", retry=NEVER)
async def stop(ctx: Context) -> None:
    write_down("started", ctx)
    asyncio.get_running_loop().stop()
    await asyncio.Event().wait()


@app.job("stop-from-thread", retry=NEVER)
def stop_from_thread(ctx: Context) -> None:
    write_down("started", ctx)
    os.kill(os.getpid(), signal.SIGUSR1)
    pass_time_in_thread(PATIENCE)


@app.job("cancel-all", retry=NEVER)
async def cancel_all(ctx: Context) -> None:
    write_down("started", ctx)
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.Event().wait()


async def main() -> None:
    loop = asyncio.get_running_loop()
    tasks.extend(asyncio.all_tasks())
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    async with app.running({"default": 4}, lease=timedelta(seconds=PATIENCE), grace=timedelta(seconds=PATIENCE)):
        try:
            await pass_time(PATIENCE)
        except asyncio.CancelledError:
            write_down("interrupted")
            raise


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(main())
