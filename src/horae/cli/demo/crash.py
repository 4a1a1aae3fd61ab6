"""``horae demo attention --crash``: a process that drives the lane and is killed inside an action, by SIGKILL."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from horae.cli.demo.story import BEGINS, Outside, Pager, Spans, Time, begin, make_agent
from horae.clock import StoryClock, SystemClock
from horae.core.time.instants import from_iso, iso
from horae.errors import ConfigurationError


def until_killed(database: Path, spans: Spans, real: bool) -> datetime:
    """Let another process begin the story, kill it inside "page", and return when that was by its clock."""
    arguments = {"database": str(database), "minute": spans.minute.total_seconds(), "real": real}
    return from_iso(killed_inside("horae.cli.demo.crash", arguments))


def killed_inside(module: str, arguments: Mapping[str, Any]) -> str:
    """Run a module until it prints a line, kill it there with SIGKILL, and return the line."""
    with subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as victim:
        assert victim.stdout is not None
        assert victim.stderr is not None
        try:
            inside = victim.stdout.readline()
            if not inside:
                raise ConfigurationError("demo_process_ended", problem=victim.stderr.read().strip())
            return inside.strip()
        finally:
            victim.kill()


def live(database: Path, spans: Spans, real: bool) -> None:
    """Run as that process: print when it is inside the action, and never get any further."""
    from horae.cli.demo.run import to_the_end

    clock = SystemClock() if real else StoryClock(BEGINS)
    time = Time(clock)

    def die() -> None:
        print(iso(clock.now()), flush=True)
        sys.stdin.read()  # until it is killed, or the process that should kill it is gone

    outside = Outside(time, Pager(database.parent), spans, dies=die)
    agent = make_agent(database, outside)
    begin(agent, outside)
    asyncio.run(to_the_end(agent.driver(), agent, time))


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    live(Path(arguments["database"]), Spans(timedelta(seconds=arguments["minute"])), arguments["real"])
