"""The commands ``horae`` and ``python`` for shells of tests, forked from a process that has imported Horae already.

A page of the documentation is a shell script in which our command stands some twenty times. The commands of this
folder are small clients: each sends its arguments, directory, environment and streams to the process that forks, hands
on the signals that it gets, and ends as the forked program does. When the client is killed, so is the program.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import forking

SOCKET = "forks"
CLIENT = """\
#!{python} -IS
import json, os, signal, socket, sys

line = socket.socket(socket.AF_UNIX)
line.connect({path!r})
ask = {{"command": [{program!r}, *sys.argv[1:]], "cwd": os.getcwd(), "environment": dict(os.environ),
       "session": False, "group": os.getpgrp(), "descriptors": [0, 1, 2],
       "ignored": [each for each in (2, 3) if signal.getsignal(each) == signal.SIG_IGN]}}
text = json.dumps(ask).encode()
socket.send_fds(line, [len(text).to_bytes(4, "big")], [0, 1, 2])
line.sendall(text)
pid = int.from_bytes(line.recv(4), "big")
for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(each) != signal.SIG_IGN:
        signal.signal(each, lambda number, _: os.kill(pid, number))
answer = line.recv(4)
code = os.waitstatus_to_exitcode(int.from_bytes(answer, "big")) if answer else 1
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != 9 else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def folder() -> Path:
    """Make the two commands and the process behind them, which ends with this one; return where they lie."""
    home = Path(tempfile.mkdtemp(prefix="horae-commands-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for program in ("horae", "python"):
        command = home / program
        command.write_text(CLIENT.format(python=sys.executable, path=str(home / SOCKET), program=program))
        command.chmod(0o755)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(home / SOCKET))
    listening.listen(64)
    ours, other = socket.socketpair()
    fds = [listening.fileno(), other.fileno()]
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, *map(str, fds)], pass_fds=fds, stdin=subprocess.DEVNULL, process_group=0
    )
    process.returncode = 0  # it ends when this process does: nobody waits for it
    listening.close()
    other.close()
    _kept.append(ours)
    return home


_kept: list[socket.socket] = []


class _Forker:
    """Answers clients until the test's process is gone; `serve` returns in each child."""

    def __init__(self, listening: socket.socket, test: socket.socket) -> None:
        self._listening = listening
        self._test = test
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._selector.register(test, selectors.EVENT_READ)
        self._programs: dict[socket.socket, tuple[int, int]] = {}  # by client: pid, and a descriptor of the process

    def serve(self) -> dict[str, Any]:
        while True:
            for key, _ in self._selector.select():
                found: Any = key.fileobj
                if found is self._test:
                    self._leave()
                elif found is self._listening:
                    ask = self._fork(self._listening.accept()[0])
                    if ask is not None:
                        return ask
                elif isinstance(found, socket.socket):
                    if found in self._programs:  # the client is gone
                        os.kill(self._programs[found][0], signal.SIGKILL)
                        self._selector.unregister(found)
                else:
                    self._tell(found)

    def _fork(self, client: socket.socket) -> dict[str, Any] | None:
        ask, received = forking.hear(client)
        pid = os.fork()
        if pid == 0:
            self._let_go(client)
            forking.keep(ask["descriptors"], received)
            return ask
        for each in received:
            os.close(each)
        process = os.pidfd_open(pid)
        self._programs[client] = (pid, process)
        self._selector.register(process, selectors.EVENT_READ)
        self._selector.register(client, selectors.EVENT_READ)
        client.sendall(pid.to_bytes(4, "big"))
        return None

    def _let_go(self, *further: socket.socket) -> None:
        """Forget what is open: else its end, whenever that is, would close what has its number by then."""
        self._selector.close()
        for each in (self._listening, self._test, *self._programs, *further):
            each.detach()

    def _tell(self, process: int) -> None:
        """Send a client how its program ended."""
        [client] = [each for each, (_, known) in self._programs.items() if known == process]
        pid, _ = self._programs.pop(client)
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(process)
        os.close(process)
        with contextlib.suppress(OSError, KeyError):
            client.sendall(status.to_bytes(4, "big"))
            self._selector.unregister(client)
        client.close()

    def _leave(self) -> None:
        for pid, _ in self._programs.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os._exit(0)


def _run(program: str, arguments: list[str]) -> None:
    if program == "horae":
        from horae.cli.start import main

        sys.argv[:] = ["horae", *arguments]
        sys.path[0] = str(Path(sys.executable).parent)
        sys.exit(main())
    if arguments and arguments[0].startswith("-") and arguments[0] not in ("-", "-c", "-m"):
        os.execv(sys.executable, [sys.executable, *arguments])
    forking.interpret(arguments or ["-"])


def main() -> None:
    """Fork for clients; in a child, run its program."""
    listening, test = (socket.socket(fileno=int(each)) for each in sys.argv[1:])
    forking.preload()
    ask = _Forker(listening, test).serve()
    for each in ask["ignored"]:
        signal.signal(each, signal.SIG_IGN)
    forking.become(ask)
    program, *arguments = ask["command"]
    forking.finish(lambda: _run(program, arguments))


if __name__ == "__main__":
    main()
