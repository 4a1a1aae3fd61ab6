"""Ask a library in a child process: one that may end, block or take over the process in which it is loaded.

Ray's driver does all three: it ends its process a minute after the cluster's head is gone, and most of its calls have
no time limit. Here it ends a child, which is started again, and the worker goes on with its other jobs.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import count
from typing import Any

from horae.errors import ExecutorUnavailable
from horae.runtime.worker.messages import Channel, Message

Verbs = Mapping[str, Callable[..., Any]]


class Bridge:
    """A child process that answers questions; started when the first is asked, and again after it has ended."""

    def __init__(self, executor: str, module: str, configuration: Mapping[str, Any]) -> None:
        self._executor = executor
        self._module = module
        self._configuration = configuration
        self._starting = threading.Lock()
        self._line: _Line | None = None

    def ask(self, verb: str, limit: float, /, **arguments: Any) -> Any:
        """Return the answer of the child; without one in time, end the child, so that the next question starts anew."""
        with self._starting:
            line = self._line
            if line is None or not line.is_open:
                line = self._line = _Line(self._module, self._configuration)
        try:
            answer = line.ask(verb, arguments).result(limit)
        except FutureTimeout:
            line.end()
            raise ExecutorUnavailable("executor_silent", executor=self._executor, seconds=f"{limit:g}") from None
        except ConnectionError as problem:
            raise ExecutorUnavailable("executor_away", executor=self._executor, problem=str(problem)) from None
        if answer["error"] is None:
            return answer["value"]
        if answer["away"]:
            raise ExecutorUnavailable("executor_away", executor=self._executor, problem=answer["error"])
        raise RuntimeError(answer["error"])

    def close(self) -> None:
        """End the child."""
        with self._starting:
            if self._line is not None:
                self._line.end()


class _Line:
    """One child process and the questions that it has not answered yet."""

    def __init__(self, module: str, configuration: Mapping[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._numbers = count(1)
        self._waiting: dict[int, Future[Message]] = {}
        self._changing = threading.Lock()
        self.is_open = True
        code = (
            "import json, sys; from importlib import import_module; sys.path[:] = json.loads(sys.argv[2]); "
            f"import_module({module!r}).main(int(sys.argv[1]), json.loads(sys.argv[3]))"
        )
        texts = [str(theirs.fileno()), json.dumps(sys.path), json.dumps(dict(configuration))]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, *texts],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C in a terminal is for the worker
            )
        finally:
            theirs.close()
        threading.Thread(target=self._receive, name="horae-bridge", daemon=True).start()

    def ask(self, verb: str, arguments: Mapping[str, Any]) -> Future[Message]:
        answer: Future[Message] = Future()
        with self._changing:
            if not self.is_open:
                raise ConnectionError("its process has ended")
            number = next(self._numbers)
            self._waiting[number] = answer
        self._channel.send({"number": number, "verb": verb, "arguments": dict(arguments)})
        return answer

    def _receive(self) -> None:
        while (message := self._channel.receive()) is not None:
            waiting = self._waiting.pop(message["number"], None)
            if waiting is not None:
                waiting.set_result(message)
        with self._changing:
            self.is_open = False
            left, self._waiting = list(self._waiting.values()), {}
        for waiting in left:
            waiting.set_exception(ConnectionError("its process has ended"))
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        self.is_open = False
        self._process.kill()
        self._channel.hang_up()


def serve(line: int, verbs: Verbs, is_away: Callable[[BaseException], bool]) -> None:
    """Answer the questions of the parent, each in a thread, until the parent ends; runs in the child."""
    end = socket.socket(fileno=line)
    end.set_inheritable(False)
    channel = Channel(end)

    def answer(message: Message) -> None:
        try:
            value = verbs[message["verb"]](**message["arguments"])
            channel.send({"number": message["number"], "value": value, "error": None})
        except BaseException as problem:
            text = f"{type(problem).__name__}: {problem}"
            channel.send({"number": message["number"], "error": text[:2000], "away": is_away(problem)})

    while (message := channel.receive()) is not None:
        threading.Thread(target=answer, args=[message], daemon=True).start()
    os._exit(0)
