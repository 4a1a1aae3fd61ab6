"""A call on a Dask cluster: a task that runs a handler in a process of its own, which can be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from horae.executors.container import Output, exit_text

LOOK_EVERY = 0.5  # seconds between two reports
STOP_EVERY = 10.0  # seconds for which a request to stop is waited for at a time
BEGAN = 0.1  # seconds for the scheduler to tell whether the task ran before
LAST_WORDS = 5.0  # seconds for the last lines of a process that has ended


def run_on_dask(document: str, name: str) -> dict[str, Any]:
    """Run a call once; a task that Dask starts again after it has lost a worker is not run again.

    Horae decides whether a job is tried again, and counts it.
    """
    from distributed import Event, Variable, get_client, get_worker

    client, here = get_client(), get_worker().address
    began = Variable(f"{name}-began", client=client)
    with suppress(TimeoutError):
        return _lost(f"it began on {began.get(timeout=BEGAN)}, which Dask has lost")
    began.set(here)
    process = subprocess.Popen(
        [sys.executable, "-m", "horae.executors"],
        stdin=subprocess.PIPE,  # open as long as this process lives: its end ends the child
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
    )
    assert process.stdin is not None
    output = Output()
    reading = threading.Thread(target=lambda: output.read(process.stdout or ()), daemon=True)
    reading.start()
    process.stdin.write(f"{document}\n")
    process.stdin.flush()
    report, reported = Variable(f"{name}-report", client=client), None
    stop = Event(f"{name}-stop", client=client)
    threading.Thread(target=lambda: _kill_when_set(stop, process), daemon=True).start()
    while _is_running(process):
        news = (len(output.lines), output.lines[-1:], output.progress)
        if news != reported:
            reported = news
            report.set({"lines": list(output.lines), "progress": output.progress})
    stopped = stop.is_set()
    with suppress(ProcessLookupError):  # also what the handler has started and left behind
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    reading.join(LAST_WORDS)
    ending = None if stopped else output.ending
    error = "it was stopped" if stopped else "" if ending else f"its process {exit_text(code)}"
    report.set({"lines": list(output.lines), "progress": output.progress})
    return {"ending": ending, "error": error, "exit_code": code, "lines": list(output.lines)}


def _is_running(process: subprocess.Popen[str]) -> bool:
    """Wait a moment for a process; return whether it still runs."""
    try:
        process.wait(LOOK_EVERY)
    except subprocess.TimeoutExpired:
        return True
    return False


def _kill_when_set(stop: Any, process: subprocess.Popen[str]) -> None:
    """Kill a process when its call is cancelled; return after it has ended."""
    while process.poll() is None:
        if stop.wait(timeout=STOP_EVERY):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return


def _lost(error: str) -> dict[str, Any]:
    return {"ending": None, "error": error, "exit_code": None, "lines": []}
