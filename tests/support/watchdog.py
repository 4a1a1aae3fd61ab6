"""Ends what a dead process left behind.

Started by `tests.support.ground` as a small process of its own. It reads one instruction per line: `watch PID`,
`forget PID` or `remove DIRECTORY`. When its input ends or its parent is gone (an ordinary exit, Ctrl-C, `kill -9`), it
stops every server it still watches and removes the directories. It never touches any other process.

Only the standard library, so that it starts in milliseconds and outlives nothing it needs.
"""

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

PARENT_CHECK = 1.0  # seconds; the pipe closes at once, this is for a parent whose forked child still holds the pipe
PATIENCE = 5.0  # seconds between asking a server to stop at once and killing it


def born_at(pid: int) -> str | None:
    """Return when a process was started, in kernel ticks, so that a reused process id is not mistaken for it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "unknown" if not Path("/proc/self").exists() and is_alive(pid) else None
    return None if fields[0] in "ZX" else fields[19]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def end(watched: dict[int, str | None]) -> None:
    def alive() -> list[int]:
        return [pid for pid, birth in watched.items() if birth is not None and born_at(pid) == birth]

    for sign, patience in ((signal.SIGQUIT, PATIENCE), (signal.SIGKILL, 1.0)):
        for pid in alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)  # SIGQUIT is PostgreSQL's immediate shutdown, which takes its children along
        deadline = time.monotonic() + patience
        while alive() and time.monotonic() < deadline:
            time.sleep(0.02)


def main() -> None:
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    parent = int(sys.argv[1])
    watched: dict[int, str | None] = {}
    directories: list[str] = []
    pending = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], PARENT_CHECK)[0]:
            continue
        received = os.read(0, 65536)
        if not received:
            break
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            verb, _, what = os.fsdecode(line).partition(" ")
            if verb == "watch":
                watched[int(what)] = born_at(int(what))
            elif verb == "forget":
                watched.pop(int(what), None)
            elif verb == "remove":
                directories.append(what)
    end(watched)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
