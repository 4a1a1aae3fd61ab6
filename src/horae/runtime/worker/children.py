"""Handlers in child processes: for work that needs a processor of its own, and for handlers that must be killable.

Children are fresh interpreters, never forks. They are started when needed, at most one for each running job, used
again, and replaced after some number of jobs. A child that crashes fails its attempt and nothing else; the parent
holds the lease.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from horae.core.jobs.outcomes import Cancel, Snooze
from horae.errors import ConfigurationError
from horae.runtime.worker import child
from horae.runtime.worker.context import Context
from horae.runtime.worker.executor import Handler, NotKept, TimeUp, ignored, time_limit
from horae.runtime.worker.messages import Channel, Message, job_as_json
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.tracebacks import Reported

Service = tuple[str, str | None]  # its URL and a token for it
log = logging.getLogger("horae.worker")
MAX_JOBS = 100  # then a child is replaced, so that what its handlers leak does not grow for ever
START_LIMIT = 60.0  # seconds to start an interpreter and import the handler's module; not part of a job's time limit
TIME_TO_NOTICE = 1.0  # seconds between ctx.cancelled and SIGTERM, for handlers that can notice
TIME_TO_CLEAN_UP = 2.0  # seconds between SIGTERM and SIGKILL
UNBOUNDED = 1_000_000  # threads: one for each running job, which the worker's slots bound


class Process:
    """One child as its parent sees it. Its verbs block; they are called from a thread."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._loaded: set[str] = set()
        self._ended = threading.Event()
        self.jobs = 0
        self.spoiled = False
        try:
            self._popen = subprocess.Popen(
                child.boot(theirs.fileno(), os.getpid()),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C in a terminal is for the worker; SIGKILL takes grandchildren along
            )
        except OSError:
            self._channel.close()
            raise
        finally:
            theirs.close()
        threading.Thread(target=self._watch, name=f"horae-child-{self._popen.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set()

    def _watch(self) -> None:
        self._popen.wait()
        self._ended.set()
        self._channel.hang_up()  # also when a grandchild still holds the other end

    def load(self, handler: Handler, database: str | None, service: Service | None = None) -> None:
        """Let the child import what it is to run."""
        if handler.name in self._loaded:
            return
        answer = self._converse(_load_order(handler, database, service), None)
        if answer["say"] == "refused":
            raise Reported(answer["error"])
        self._loaded.add(handler.name)

    def run(self, handler: Handler, ctx: Context, max_bytes: int) -> Any:
        """Run one job to its end; every way it can end is an answer, a ``Reported`` failure, Snooze or Cancel."""
        self.jobs += 1
        order = {
            "do": "run",
            "name": handler.name,
            "takes_context": handler.takes_context,
            "max_bytes": max_bytes,
            "job": job_as_json(ctx.claimed),
        }
        answer = self._converse(order, ctx)
        match answer["how"]:
            case "snoozed":
                raise Snooze(timedelta(seconds=answer["seconds"]), answer["error"])
            case "cancelled":
                raise Cancel(answer["error"])
            case "raised":
                raise Reported(answer["error"])
        return NotKept(answer["error"]) if answer.get("error") else json.loads(answer["result"])

    def _converse(self, order: Message, ctx: Context | None) -> Message:
        try:
            return self._heard(order, ctx)
        except BaseException:
            self.spoiled = True  # whatever it was, who knows what the child would say next
            raise

    def _heard(self, order: Message, ctx: Context | None) -> Message:
        self._channel.send(order)
        while (message := self._channel.receive()) is not None:
            match message["say"]:
                case "log":
                    _log_again(message)
                case "progress" | "checkpoint" if ctx is not None:
                    self._channel.send(_written(ctx, message))
                case _:
                    return message
        self._ended.wait(TIME_TO_CLEAN_UP)
        raise Reported(f"ChildDied: the process of this handler {_last_sign(self._popen.returncode)}")

    # -- ending --------------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        self.spoiled = True
        self._channel.send({"do": "stop"})

    def terminate(self) -> None:
        """SIGTERM, sent by the child to itself, so that it cannot overtake the word to stop."""
        self._channel.send({"do": "terminate"})

    def kill(self) -> None:
        self.spoiled = True
        with suppress(ProcessLookupError, PermissionError):
            if self.is_alive:
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """An idle child ends by itself when its line is closed."""
        self._channel.close()


class Children:
    """The child processes of one worker."""

    def __init__(
        self,
        *,
        database: str | None = None,
        service: Service | None = None,
        max_bytes: int = 1024 * 1024,
        max_jobs: int = MAX_JOBS,
    ) -> None:
        if child.inside:
            raise ConfigurationError("worker_inside_child")
        self._database = database
        self._service = service
        self._max_bytes = max_bytes
        self._max_jobs = max_jobs
        self._threads = Threads(UNBOUNDED, name="horae-process")
        self._idle: list[Process] = []
        self._busy: set[Process] = set()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in (*self._busy, *self._idle) if process.is_alive]

    async def run(self, handler: Handler, ctx: Context) -> Any:
        """Run one job in a child; when cancelled, or when its time is up, the child is ended first."""
        limit = time_limit(handler, ctx.claimed)
        process = await self._ready(handler)
        try:
            async with asyncio.timeout(limit):
                return await self._talk(
                    process, partial(process.run, handler, ctx, self._max_bytes), _time_to_notice(handler)
                )
        except TimeoutError:
            raise TimeUp(f"timed_out: over {timedelta(seconds=limit or 0)}; its process was ended") from None
        finally:
            self._put_back(process)

    async def _ready(self, handler: Handler) -> Process:
        """A child that has imported the handler. A new interpreter takes its time, which is not the job's."""
        process = self._from_the_idle() or await self._started()
        self._busy.add(process)
        try:
            async with asyncio.timeout(START_LIMIT):
                await self._talk(process, partial(process.load, handler, self._database, self._service), 0.0)
        except BaseException as problem:
            process.kill()
            self._put_back(process)
            if isinstance(problem, TimeoutError):
                raise Reported(
                    f"ChildNotReady: after {START_LIMIT:.0f} seconds the module {handler.function.__module__} "
                    "was not yet imported in a child process"
                ) from None
            raise
        return process

    async def _started(self) -> Process:
        starting: asyncio.Future[Process] = self._threads.submit(Process)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_unwanted)
            raise

    def _from_the_idle(self) -> Process | None:
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            process.close()
        return None

    def _put_back(self, process: Process) -> None:
        self._busy.discard(process)
        if process.is_alive and not process.spoiled and process.jobs < self._max_jobs:
            self._idle.append(process)
        else:
            process.close()

    async def _talk(self, process: Process, work: Callable[[], Any], patience: float) -> Any:
        running = self._threads.submit(work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(ignored)
            await _ended(process, running, patience)
            raise

    def close(self) -> None:
        """No child outlives its worker."""
        for process in self._busy:
            process.kill()
        for process in (*self._busy, *self._idle):
            process.close()
        self._busy.clear()
        self._idle.clear()
        self._threads.close()


def _unwanted(starting: asyncio.Future[Process]) -> None:
    """A child that was still being born when its job was called off."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()


async def _ended(process: Process, running: asyncio.Future[Any], patience: float) -> None:
    """Ask, then insist, then kill; in the end the child is gone and its conversation over."""
    try:
        process.ask_to_stop()
        if patience:
            await asyncio.wait([running], timeout=patience)
        if not running.done():
            process.terminate()
            await asyncio.wait([running], timeout=TIME_TO_CLEAN_UP)
    finally:
        process.kill()  # also one that ended in order: nobody knows what it left behind
        await asyncio.wait([running], timeout=TIME_TO_CLEAN_UP)


def _time_to_notice(handler: Handler) -> float:
    """A handler that cannot learn that it should stop needs no time to do so."""
    may_await = inspect.iscoroutinefunction(inspect.unwrap(handler.function))
    return TIME_TO_NOTICE if handler.takes_context or may_await else 0.0


def _load_order(handler: Handler, database: str | None, service: Service | None) -> Message:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    function = handler.function
    names = ("", f"horae.jobs.{handler.name}")
    return {
        "do": "load",
        "name": handler.name,
        "module": function.__module__,
        "qualname": function.__qualname__,
        "main": {"module": getattr(spec, "name", None), "path": path and os.path.abspath(path)},
        "argv": sys.argv,
        "database": database,
        "service": service,
        "levels": {name: logging.getLogger(name or None).getEffectiveLevel() for name in names},
    }


def _written(ctx: Context, message: Message) -> Message:
    """Carry out what the child asks for, and say how it went."""
    try:
        write = ctx.progress if message["say"] == "progress" else ctx.checkpoint
        write(json.loads(message["value"]))
    except Exception as problem:
        return {"do": "answer", "error": type(problem).__name__, "text": str(problem)}
    return {"do": "answer", "error": ""}


def _log_again(message: Message) -> None:
    logger = logging.getLogger(message["name"])
    if not logger.isEnabledFor(message["level"]):
        return
    path, line, function = message["where"]
    record = logger.makeRecord(message["name"], message["level"], path, line, message["text"], (), None, function)
    vars(record).update({name: value for name, value in message["extra"].items() if name not in vars(record)})
    record.created = message["created"]
    record.exc_text = message["trace"].rstrip() or None
    logger.handle(record)


def _last_sign(code: int | None) -> str:
    if code is None:
        return "went silent"
    if code >= 0:
        return f"ended with exit code {code} before the handler did"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    why = " (out of memory, or kill -9)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{why}"
