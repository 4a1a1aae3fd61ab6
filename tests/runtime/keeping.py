"""A process that does one chore on a database until it is killed: it writes a line for each step, then stays in it.

python -m tests.runtime.keeping URL FILE holds|returns
"""

import asyncio
import os
import sys
import threading
from datetime import timedelta
from pathlib import Path

from horae import Horae
from horae.ports.world import World
from horae.runtime.chores.janitor import Chore, Janitor
from horae.runtime.database import DatabaseThreads

LEASE = timedelta(seconds=2)
EVERY = timedelta(milliseconds=100)
NAME = "write a line"


async def main(url: str, file: Path, manner: str) -> None:
    def work(_: World) -> None:
        with file.open("a") as lines:
            lines.write(f"{os.getpid()}\n")
        if manner == "holds":
            threading.Event().wait()

    with Horae(url) as app:
        await Janitor(
            app.world, DatabaseThreads(), [Chore(NAME, EVERY, work)], name=str(os.getpid()), lease=LEASE
        ).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
