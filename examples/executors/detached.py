"""An executor that runs each call in a process of its own on this machine, which outlives the worker.

A folder for each call holds what is known about it, so that any worker on this machine can follow it.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from horae.executors import ExecutorUnavailable, Handle, Output, RemoteCall, RemoteEnding, RemoteStatus

PAUSE = 0.05  # seconds between two looks
STOP = 10.0  # seconds for a process to end


class DetachedExecutor:
    name = "detached"

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def submit(self, call: RemoteCall) -> Handle:
        place = self._folder / call.name
        place.mkdir(parents=True, exist_ok=True)
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two workers may submit the same name at once
            if not (place / "pid").exists():
                (place / "call").write_text(call.document)
                with (place / "output").open("w") as output:
                    # The shell outlives the worker and writes down how the call ended.
                    process = subprocess.Popen(
                        ["sh", "-c", '"$@"; echo $? > ended.new; mv ended.new ended', "sh", *COMMAND, place / "call"],
                        stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=place, env=ENVIRONMENT,
                        start_new_session=True,
                    )  # fmt: skip
                (place / "pid").write_text(str(process.pid))
        return {"name": call.name}

    def look(self, handle: Handle) -> RemoteStatus:
        place = self._folder / handle["name"]
        if not (place / "pid").exists():
            return RemoteStatus("gone")
        alive = is_alive(int((place / "pid").read_text()))  # first: a process that has ended has written how before
        progress = self._output(place).progress
        if (place / "ended").exists():
            return RemoteStatus("ended", progress=progress)
        if alive:
            return RemoteStatus("running", progress=progress)
        return RemoteStatus("gone", detail="its process was killed, or this machine was started again")

    def wait(self, handle: Handle, limit: timedelta) -> RemoteStatus:
        ends_by = time.monotonic() + limit.total_seconds()
        while (status := self.look(handle)).state not in ("ended", "gone") and time.monotonic() < ends_by:
            time.sleep(PAUSE)
        return status

    def cancel(self, handle: Handle) -> None:
        place = self._folder / handle["name"]
        if not (place / "pid").exists():
            return
        pid = int((place / "pid").read_text())
        if not (place / "ended").exists():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            ends_by = time.monotonic() + STOP
            while is_alive(pid):
                if time.monotonic() > ends_by:
                    raise ExecutorUnavailable(f"The process {pid} does not end.")
                time.sleep(PAUSE)
        (place / "pid").rename(place / "stopped")  # the folder stays, for people

    def collect(self, handle: Handle) -> RemoteEnding:
        place = self._folder / handle["name"]
        output = self._output(place)
        lines = tuple(output.lines)
        if not (place / "ended").exists():
            return RemoteEnding(None, lines=lines)
        code = int((place / "ended").read_text())
        return RemoteEnding(output.ending, "" if output.ending else "its process died", code, lines)

    def _output(self, place: Path) -> Output:
        with contextlib.suppress(FileNotFoundError), (place / "output").open(errors="replace") as file:
            return Output().read(file)
        return Output()


COMMAND = [sys.executable, "-m", "horae.executors"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        os.waitpid(pid, os.WNOHANG)  # where this process has started it
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
