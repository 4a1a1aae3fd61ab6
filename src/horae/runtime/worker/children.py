"""Run handlers in child processes: for work that needs a processor of its own, and for handlers that must be killable.

Children are fresh interpreters, never forks. They are started when needed, at most one for each running job, reused,
and replaced after a number of jobs. A child that crashes fails its attempt and nothing else; the parent holds the
lease.
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

from horae.core.jobs.outcomes import BudgetEmpty, Cancel, Snooze
from horae.errors import ConfigurationError
from horae.runtime.logs import logger_name
from horae.runtime.worker import child
from horae.runtime.worker.context import Context
from horae.runtime.worker.executor import Handler, NotKept, TimeUp, ignore_result, time_limit
from horae.runtime.worker.messages import Channel, Message, job_as_json
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.tracebacks import Reported

Service = tuple[str, str | None]  # its URL and a token for it
log = logging.getLogger("horae.worker")
MAX_JOBS = 100  # then a child is replaced, so that memory its handlers leak is freed
START_LIMIT = 60.0  # seconds to start an interpreter and import the handler's module; not part of a job's time limit
TIME_TO_NOTICE = 1.0  # seconds between ctx.cancelled and SIGTERM, for handlers that can see the request
TIME_TO_CLEAN_UP = 2.0  # seconds between SIGTERM and SIGKILL
UNBOUNDED = 1_000_000  # threads: one for each running job, which the worker's slots bound


class Process:
    """A child process, seen from its parent. Its methods block; call them from a thread."""

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

    def load(
        self, handler: Handler, database: str | None, service: Service | None = None, *, is_on_bus: bool = False
    ) -> None:
        """Let the child import the handler."""
        if handler.name in self._loaded:
            return
        answer = self._converse(_load_order(handler, database, service, is_on_bus), None)
        if answer["say"] == "refused":
            raise Reported(answer["error"])
        self._loaded.add(handler.name)

    def run(self, handler: Handler, ctx: Context, max_bytes: int) -> Any:
        """Run one job; return its result, or raise ``Reported`` for a failure, Snooze or Cancel."""
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
                raise Reported(answer["error"], is_final=answer["final"])
        return NotKept(answer["error"]) if answer.get("error") else json.loads(answer["result"])

    def _converse(self, order: Message, ctx: Context | None) -> Message:
        try:
            return self._exchange(order, ctx)
        except BaseException:
            self.spoiled = True  # the child's next message may belong to this order
            raise

    def _exchange(self, order: Message, ctx: Context | None) -> Message:
        self._channel.send(order)
        while (message := self._channel.receive()) is not None:
            match message["say"]:
                case "log":
                    _log_again(message)
                case "line" if ctx is not None:
                    ctx.write_line(message["level"], message["text"])
                case "progress" | "checkpoint" | "parents" | "spend" | "spent" | "recall" | "keep" if ctx is not None:
                    self._channel.send(_store_report(ctx, message))
                case _:
                    return message
        self._ended.wait(TIME_TO_CLEAN_UP)
        raise Reported(f"ChildDied: the process of this handler {_last_sign(self._popen.returncode)}")

    # -- ending --------------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        self.spoiled = True
        self._channel.send({"do": "stop"})

    def terminate(self) -> None:
        """Let the child send SIGTERM to itself, so that the signal cannot overtake the request to stop."""
        self._channel.send({"do": "terminate"})

    def kill(self) -> None:
        self.spoiled = True
        with suppress(ProcessLookupError, PermissionError):
            if self.is_alive:
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the socket; an idle child then ends by itself."""
        self._channel.close()


class Children:
    """The child processes of one worker."""

    def __init__(
        self,
        *,
        database: str | None = None,
        service: Service | None = None,
        is_on_bus: bool = False,
        max_bytes: int = 1024 * 1024,
        max_jobs: int = MAX_JOBS,
    ) -> None:
        if child.inside:
            raise ConfigurationError("worker_inside_child")
        self._database = database
        self._service = service
        self._is_on_bus = is_on_bus
        self._max_bytes = max_bytes
        self._max_jobs = max_jobs
        self._threads = Threads(UNBOUNDED, name="horae-process")
        self._idle: list[Process] = []
        self._busy: set[Process] = set()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in (*self._busy, *self._idle) if process.is_alive]

    async def run(self, handler: Handler, ctx: Context) -> Any:
        """Run one job in a child; on a cancellation or a timeout end the child before returning."""
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
        """Return a child that has imported the handler; starting one does not count against the job's time limit."""
        process = self._from_the_idle() or await self._start()
        self._busy.add(process)
        try:
            async with asyncio.timeout(START_LIMIT):
                load = partial(process.load, handler, self._database, self._service, is_on_bus=self._is_on_bus)
                await self._talk(process, load, 0.0)
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

    async def _start(self) -> Process:
        starting: asyncio.Future[Process] = self._threads.submit(Process)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_close_unwanted)
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
            running.add_done_callback(ignore_result)
            await _end(process, running, patience)
            raise

    def close(self) -> None:
        """End all children: none may outlive its worker."""
        for process in self._busy:
            process.kill()
        for process in (*self._busy, *self._idle):
            process.close()
        self._busy.clear()
        self._idle.clear()
        self._threads.close()


def _close_unwanted(starting: asyncio.Future[Process]) -> None:
    """Close a child whose job was cancelled while the child was starting."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()


async def _end(process: Process, running: asyncio.Future[Any], patience: float) -> None:
    """End a child: ask it to stop, send SIGTERM, then SIGKILL; return when its thread has finished."""
    try:
        process.ask_to_stop()
        if patience:
            await asyncio.wait([running], timeout=patience)
        if not running.done():
            process.terminate()
            await asyncio.wait([running], timeout=TIME_TO_CLEAN_UP)
    finally:
        process.kill()  # also a child that stopped when asked: its state is unknown, and it may have grandchildren
        await asyncio.wait([running], timeout=TIME_TO_CLEAN_UP)


def _time_to_notice(handler: Handler) -> float:
    """Return how long to wait before SIGTERM: zero for a handler that cannot see the request to stop."""
    may_await = inspect.iscoroutinefunction(inspect.unwrap(handler.function))
    return TIME_TO_NOTICE if handler.takes_context or may_await else 0.0


def _load_order(handler: Handler, database: str | None, service: Service | None, is_on_bus: bool) -> Message:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    function = handler.function
    names = ("", logger_name(handler.name))
    return {
        "do": "load",
        "name": handler.name,
        "module": function.__module__,
        "qualname": function.__qualname__,
        "main": {"module": getattr(spec, "name", None), "path": path and os.path.abspath(path)},
        "argv": sys.argv,
        "database": database,
        "service": service,
        "is_on_bus": is_on_bus,
        "levels": {name: logging.getLogger(name or None).getEffectiveLevel() for name in names},
    }


def _store_report(ctx: Context, message: Message) -> Message:
    """Store what the child reports, progress, a checkpoint or spending; return the answer to send to it."""
    try:
        match message["say"]:
            case "parents":
                found = [(each.id, each.state, each.handler, each.result, each.error) for each in ctx.parents()]
                return {"do": "answer", "error": "", "parents": found}
            case "spend":
                return {"do": "answer", "error": "", **_spend(ctx, message["cost"], message["key"])}
            case "recall" | "keep":
                return {"do": "answer", "error": "", **_look_up(ctx, message)}
            case "spent":
                ctx.spent(message["cost"], key=message["key"])
            case "progress":
                ctx.progress(json.loads(message["value"]))
            case _:
                ctx.checkpoint(json.loads(message["value"]))
    except Exception as problem:
        return {"do": "answer", "error": type(problem).__name__, "text": str(problem)}
    return {"do": "answer", "error": ""}


def _spend(ctx: Context, cost: dict[str, int], key: str) -> Message:
    try:
        ctx.spend(cost, key=key)
    except BudgetEmpty as empty:
        return {"granted": False, "wait": empty.delay.total_seconds(), "reason": empty.reason}
    return {"granted": True, "wait": None, "reason": ""}


def _look_up(ctx: Context, message: Message) -> Message:
    """Answer with the stored result of a step, after storing the one that the child brings."""
    log, name = ctx.step_log(), message["step"]
    if message["say"] == "keep":
        return {"known": True, "value": json.dumps(log.keep(name, json.loads(message["value"])["value"]))}
    known = log.recall(name)
    return {"known": known is not None, "value": json.dumps(None if known is None else known.value)}


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
