"""Start our programs as forks of a process that has imported them already.

Tests start some thousand processes, and importing Horae took more than half of the time of a whole run. What
``subprocess`` would start as ``python -m horae …``, ``python -m tests.…``, ``python file.py`` or as a worker's process
for handlers is forked instead by a process that only imports and waits; it becomes a child of the test like any other,
with its own pid, streams, directory and environment, and is waited for, signalled and killed in the usual way.

Anything else (other ``-c``, other programs, other settings of the interpreter) starts as ever: tests that ask what is
imported use ``-c``. `tests.support.shell_commands` does the same for commands in a shell.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from inspect import signature
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
PRELOADED = (  # not what reads the environment when it is imported, as rich does
    "horae.app",
    "horae.cli.process.server",
    "horae.cli.process.up",
    "horae.cli.process.worker",
    "horae.cli.process.worker_process",
    "horae.cli.start",
    "horae.console.install",
    "horae.doctor.examination",
    "horae.runtime.worker.assignment",
    "horae.server.process",
    "horae.service.asgi",
    "httptools",
    "jwt",
    "psycopg",
    "pymysql",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvloop",
)
MODULES = ("horae", "tests.")
CHILD = "horae.runtime.worker.child"  # the process in which a worker runs handlers
INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "COV_")  # variables that an interpreter reads when it starts
ANSWER_LIMIT = 60.0  # seconds; a fork takes milliseconds, the imports before the first one a second or two
MOST_DESCRIPTORS = 4096
BECOME_PARENT_OF_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of Linux
_ordinary = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_names = signature(_ordinary)


def use() -> None:
    """Let ``subprocess`` fork our programs from now on, where the system can."""
    if sys.platform == "linux":
        _starter.interpreter = _interpreter_of(None)
        subprocess.Popen._execute_child = _execute_child  # type: ignore[attr-defined]


def pid_of_forker() -> int | None:
    """Return the process that forks, if it has been needed."""
    return _starter.forker.pid if _starter.forker else None


def _execute_child(self: subprocess.Popen[Any], *args: Any, **named: Any) -> None:
    call = _names.bind(self, *args, **named).arguments
    try:
        pid = _starter.start(call) if _is_ours(call) else None
    except OSError:
        pid = None
    if pid is None:
        _ordinary(self, *args, **named)
        return
    self.pid = pid
    self._child_created = True  # type: ignore[attr-defined]
    pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    self._close_pipe_fds(*(call[each] for each in pipes))  # type: ignore[attr-defined]


def _is_ours(call: dict[str, Any]) -> bool:
    """Whether a call of ``subprocess`` starts a program of ours in an interpreter like this one."""
    command = call["args"]
    if isinstance(command, str | bytes | os.PathLike) or call["shell"] or call["executable"] not in (None, command[0]):
        return False
    program, *arguments = map(os.fsdecode, command)
    if program != sys.executable or not arguments or not _imports_us(*arguments[:2]):
        return False
    if call["preexec_fn"] or not call["close_fds"] or call["process_group"] not in (-1, 0):
        return False
    if call["uid"] is not None or call["gid"] is not None or call["gids"] is not None or call["umask"] != -1:
        return False
    return _interpreter_of(call["env"]) == _starter.interpreter and (call["cwd"] is None or Path(call["cwd"]).is_dir())


def _imports_us(first: str, second: str = "") -> bool:
    if first == "-m":
        return second.startswith(MODULES) and not second.startswith("tests.support.")  # which fork themselves
    return first.endswith(".py") or (first == "-c" and CHILD in second)


def _interpreter_of(environment: Any) -> dict[str, str]:
    given = {os.fsdecode(name): os.fsdecode(value) for name, value in _given(environment).items()}
    return {name: given[name] for name in given if name.startswith(INTERPRETER) and name != "PYTHONPATH"}


def _given(environment: Any) -> Any:
    return os.environ if environment is None else environment


class _Starter:
    """The test's end: asks the process that forks, which starts at the first ask and ends with the test's process."""

    def __init__(self) -> None:
        self.interpreter: dict[str, str] = {}
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._owner = 0
        self.forker: subprocess.Popen[bytes] | None = None

    def start(self, call: dict[str, Any]) -> int | None:
        """Return the pid of the new child, or None where it has to be started in the ordinary way."""
        streams = [(call["p2cread"], 0), (call["c2pwrite"], 1), (call["errwrite"], 2)]
        passed = sorted(call["pass_fds"])
        ask = {
            "command": [os.fsdecode(each) for each in call["args"]],
            "cwd": os.fsdecode(call["cwd"] or os.getcwd()),
            "environment": {os.fsdecode(name): os.fsdecode(each) for name, each in _given(call["env"]).items()},
            "session": call["start_new_session"],
            "group": 0 if call["process_group"] == 0 else os.getpgrp(),
            "descriptors": [0, 1, 2, *passed],
        }
        with self._lock, _adopting():
            for attempt in range(2):
                try:
                    return self._ask(ask, [*(given if given != -1 else own for given, own in streams), *passed])
                except (OSError, EOFError):
                    self._forget()
                    if attempt:
                        raise
        return None

    def _ask(self, ask: dict[str, Any], streams: list[int]) -> int:
        line = self._line if self._line is not None and self._owner == os.getpid() else self._open()
        text = json.dumps(ask).encode()
        socket.send_fds(line, [len(text).to_bytes(4, "big")], streams)
        line.sendall(text)
        return int.from_bytes(_read(line, 4), "big")

    def _open(self) -> socket.socket:
        self._line, other = socket.socketpair()
        self._owner = os.getpid()
        self._line.settimeout(ANSWER_LIMIT)
        with other:
            command = [sys.executable, "-m", __name__, str(other.fileno())]
            nothing = subprocess.DEVNULL
            self.forker = subprocess.Popen(command, pass_fds=[other.fileno()], cwd=ROOT, stdin=nothing, process_group=0)
        atexit.register(self._forget)
        self.forker.returncode = 0  # it ends when this process does: nobody waits for it
        return self._line

    def _forget(self) -> None:
        if self._line is not None and self._owner == os.getpid():
            self._line.close()
        self._line = None


@contextlib.contextmanager
def _adopting() -> Any:
    """Become the parent of what loses its own: the forked process, whose parent ends at once."""
    control = ctypes.CDLL(None, use_errno=True).prctl
    if control(BECOME_PARENT_OF_ORPHANS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "this process cannot adopt others")
    try:
        yield
    finally:
        control(BECOME_PARENT_OF_ORPHANS, 0, 0, 0, 0)


_starter = _Starter()


def _serve(line: socket.socket) -> dict[str, Any]:
    """Fork for each ask; return in the child, with what it is to be."""
    while True:
        ask, received = hear(line)
        ear, mouth = os.pipe()
        middle = os.fork()
        if middle == 0:
            _leave_a_child(mouth)  # the child alone comes back
            keep(ask["descriptors"], received)
            return ask
        for each in (*received, mouth):
            os.close(each)
        os.waitpid(middle, 0)  # from here on the child belongs to the test
        line.sendall(os.read(ear, 4))
        os.close(ear)


def hear(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Read what is asked for, with the descriptors that came along."""
    head, received, _, _ = socket.recv_fds(line, 4, 64)
    if not head:
        os._exit(0)  # the test's process is gone
    head += _read(line, 4 - len(head)) if len(head) < 4 else b""
    return json.loads(_read(line, int.from_bytes(head, "big"))), received


def keep(wanted: list[int], received: list[int]) -> None:
    """Give the descriptors that came along their numbers, and close all others."""
    above = max(*wanted, *received) + 1
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, above) for each in received]
    for number, each in zip(wanted, moved, strict=True):
        os.dup2(each, number)
    edges = sorted({*wanted, MOST_DESCRIPTORS})
    for low, high in pairwise(edges):
        os.closerange(low + 1, high)


def _leave_a_child(mouth: int) -> None:
    """Fork once more, say whom and end, so that the child's parent is whoever adopts it; return in the child only."""
    middle = os.getpid()
    child = os.fork()
    if child:
        os.write(mouth, child.to_bytes(4, "big"))
        os._exit(0)
    while os.getppid() == middle:
        time.sleep(0.0005)


def _read(line: socket.socket, size: int) -> bytes:
    text = b""
    while len(text) < size:
        part = line.recv(size - len(text))
        if not part:
            raise EOFError("the process that forks is gone")
        text += part
    return text


def become(ask: dict[str, Any]) -> None:
    """Give this process the surroundings of a fresh interpreter: directory, environment, streams, group."""
    if ask["session"]:
        os.setsid()
    else:
        with contextlib.suppress(OSError):  # the test's group ended or is of another session
            os.setpgid(0, ask["group"])
    os.chdir(ask["cwd"])
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(ask["environment"])
    time.tzset()
    wanted = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[1:] = [*wanted, *(each for each in sys.path[1:] if each not in {*before, *wanted})]
    sys.orig_argv[:] = ask["command"]
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    binary: Any = io.FileIO(0, closefd=False)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(binary), sys.stdin.encoding, sys.stdin.errors)
    sys.stdout = _stream(1, sys.stdout, unbuffered)
    sys.stderr = _stream(2, sys.stderr, unbuffered)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def _stream(number: int, like: Any, unbuffered: bool) -> io.TextIOWrapper:
    binary: Any = io.FileIO(number, "wb", closefd=False)
    binary = binary if unbuffered else io.BufferedWriter(binary)
    line_by_line = number == 2 or os.isatty(number)
    return io.TextIOWrapper(binary, like.encoding, like.errors, line_buffering=line_by_line, write_through=unbuffered)


def preload() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection would write to every page that a child shares with this process


def interpret(arguments: list[str]) -> None:
    """Do what an interpreter does with its arguments, from the first line of the program on."""
    first, rest = arguments[0], arguments[1:]
    if first == "-m":
        sys.argv[:] = ["-m", *rest[1:]]
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first in ("-", "-c"):
        text, name, further = (sys.stdin.read(), "<stdin>", rest) if first == "-" else (rest[0], "<string>", rest[1:])
        sys.argv[:] = [first, *further]
        sys.path[0] = ""
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(text, name, "exec"), module.__dict__)
    else:
        sys.argv[:] = arguments
        sys.path[0] = str(Path(first).resolve().parent)
        runpy.run_path(first, run_name="__main__")


def finish(program: Callable[[], None]) -> None:
    """Run the program and end as an interpreter does."""
    code: object = 0
    try:
        program()
    except SystemExit as ended:
        code = ended.code or 0
    if isinstance(code, int):
        _end(code)
    sys.exit(str(code))


def _end(code: int) -> None:
    """End without taking every imported module apart: that takes a tenth of a second."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        sys.exit(code)  # its reader is gone: the interpreter says what it says then
    os._exit(code & 0xFF)


def main() -> None:
    """Fork until the test's process ends; in a child, run its program."""
    line = socket.socket(fileno=int(sys.argv[1]))
    preload()
    ask = _serve(line)
    line.detach()
    become(ask)
    finish(lambda: interpret(ask["command"][1:]))


if __name__ == "__main__":
    main()
