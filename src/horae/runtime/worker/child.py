"""The main program of a child process: load handlers, run them one at a time, report each outcome to the parent.

The main thread runs handlers, so that signals and ``asyncio.run`` work as usual; a second thread reads messages of the
parent. The child ends when its parent does. Messages go over a socket of their own, so that standard output and error
stay free for the handler.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

from horae import errors
from horae.actions.jobs import claims
from horae.actions.jobs.steps import encode_result
from horae.core.governance.budgets import Spending, amounts_from
from horae.core.jobs.job import Lease
from horae.core.jobs.lines import LONGEST
from horae.core.jobs.outcomes import Cancel, Snooze
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.payloads import encode
from horae.core.jobs.steps import KeptResult
from horae.runtime.logs import JobLogFilter
from horae.runtime.loop import sleep_in_thread
from horae.runtime.worker.calls import await_fully, begin, refuse_generator
from horae.runtime.worker.context import Context
from horae.runtime.worker.messages import Channel, Message, job_from_json
from horae.runtime.worker.retry_types import is_ruled_out
from horae.runtime.worker.tracebacks import error_line, error_text

T = TypeVar("T")
MAIN = "__horae_main__"  # name of a script's module in a child; not "__main__", so that its main part does not run
LAST_WORDS = 2.0  # seconds for an idle child to end in order
LOOK_FOR_PARENT = 5.0  # seconds; usually the socket closes at once, unless a fork of the parent still holds it
RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
TELLABLE = (str, int, float, bool, type(None))
inside = False  # whether this process is a child


def main(line: int, parent: int) -> None:
    """Serve the parent at the other end of the socket with file descriptor *line*."""
    global inside
    inside = True
    end = socket.socket(fileno=line)
    end.set_inheritable(False)
    Child(Channel(end), parent).serve()


class Child:
    """A child process that runs one handler at a time."""

    def __init__(self, channel: Channel, parent: int) -> None:
        self._channel = channel
        self._parent = parent
        self._orders: SimpleQueue[Message | None] = SimpleQueue()
        self._answers: SimpleQueue[Message] = SimpleQueue()
        self._asking = threading.Lock()
        self._handlers: dict[str, tuple[Callable[..., Any], Any]] = {}
        self._ctx: Context | None = None
        self._insists = False  # the parent wants the handler to end now; this child is not used again
        self._max_bytes = 0
        self._app: Any = None
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, self._on_sigterm)
        for thread in (self._listen, self._look_for_parent):
            threading.Thread(target=thread, name=f"horae-child{thread.__name__}", daemon=True).start()
        while (order := self._orders.get()) is not None:
            answer = self._load(order) if order["do"] == "load" else self._run(order)
            self._ctx = None
            self._channel.send(answer)

    # -- listening -----------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        while (message := self._channel.receive()) is not None:
            match message["do"]:
                case "answer":
                    self._answers.put(message)
                case "stop":
                    self._stop()
                case "terminate":
                    self._insists = True
                    os.kill(os.getpid(), signal.SIGTERM)
                case "run":  # make its context here, before a stop can follow
                    self._ctx = Context(job_from_json(message["job"]), self)
                    self._orders.put(message)
                case _:
                    self._orders.put(message)
        self._leave()

    def _look_for_parent(self) -> None:
        while os.getppid() == self._parent:
            sleep_in_thread(LOOK_FOR_PARENT)
        self._leave()

    def _leave(self) -> NoReturn:
        """End, because the parent has ended. During a job kill the whole process group: its lease is lost."""
        if self._ctx is not None and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        self._orders.put(None)
        sleep_in_thread(LAST_WORDS)
        os._exit(0)

    def _stop(self) -> None:
        if self._ctx is not None:
            self._ctx.cancel()
        if self._task is not None:
            loop, task = self._task
            loop.call_soon_threadsafe(task.cancel)

    def _on_sigterm(self, *_: object) -> None:
        """Handle SIGTERM: end if the parent asked for it; ignore one from elsewhere. Runs in the main thread."""
        if self._insists:
            raise SystemExit(128 + signal.SIGTERM)

    # -- loading -------------------------------------------------------------------------------------------------

    def _load(self, order: Message) -> Message:
        try:
            self._forward_logging(order)
            sys.argv = order["argv"]
            module = _main_module(order["main"]) if order["module"] == "__main__" else _import(order["module"])
            function, app = find_handler(module, order)
            for ours in [app, *_apps(module)]:
                if ours is not None and order["service"] is not None:
                    ours.use_service(*order["service"])
                elif ours is not None and order["is_on_bus"]:
                    ours.use_bus(())  # it never connects: the parent does
                elif ours is not None and order["database"] is not None:
                    ours.database = order["database"]
            self._handlers[order["name"]] = function, app
            self._forward_logging(order)  # the module may have set up logging of its own
        except BaseException as problem:
            return {"say": "refused", "error": error_text(problem)}
        return {"say": "loaded"}

    def _forward_logging(self, order: Message) -> None:
        """Send all log records to the parent, which writes them once and in order."""
        for logger in list(logging.root.manager.loggerDict.values()):
            if isinstance(logger, logging.Logger):
                logger.handlers.clear()
                logger.propagate = True
        forward = _Forward(self._channel)
        forward.addFilter(JobLogFilter(lambda: None if self._ctx is None else self._ctx.claimed))
        logging.root.handlers = [forward]
        for name, level in order["levels"].items():
            logging.getLogger(name or None).setLevel(level)

    # -- running -------------------------------------------------------------------------------------------------

    def _run(self, order: Message) -> Message:
        ctx = self._ctx
        assert ctx is not None
        function, self._app = self._handlers[order["name"]]
        self._max_bytes = order["max_bytes"]
        given = (ctx,) if order["takes_context"] else ()
        arguments = ctx.claimed.payload if isinstance(ctx.claimed.payload, dict) else {"payload": ctx.claimed.payload}
        try:
            result = self._call(function, given, arguments)
        except Snooze as snooze:
            seconds, reason = snooze.delay.total_seconds(), str(snooze.reason)
            return {"say": "ended", "how": "snoozed", "seconds": seconds, "error": reason}
        except Cancel as cancel:
            return {"say": "ended", "how": "cancelled", "error": str(cancel.reason)}
        except BaseException as problem:
            final = is_ruled_out(ctx.claimed.retry, problem)
            return {"say": "ended", "how": "raised", "error": error_text(problem), "final": final}
        try:
            return {"say": "ended", "how": "returned", "result": encode(result, "result", self._max_bytes)}
        except BaseException as problem:
            why = str(problem) if isinstance(problem, errors.InvalidPayload) else error_line(problem)
            return {"say": "ended", "how": "returned", "result": "null", "error": why}

    def _call(self, function: Callable[..., Any], given: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        ctx = self._ctx
        assert ctx is not None
        ctx.services = getattr(self._app, "services", None)
        has_ended, begun = begin(ctx.name, function, given, arguments, ctx.scope.close)
        if has_ended:
            return begun

        async def body() -> Any:
            task = asyncio.current_task()
            assert task is not None
            self._task = (asyncio.get_running_loop(), task)
            try:
                if self._ctx is not None and self._ctx.cancelled:
                    raise asyncio.CancelledError
                answer = function(*given, **arguments) if begun is None else begun
                return refuse_generator(ctx.name, await await_fully(answer))
            finally:
                self._task = None
                await ctx.scope.aclose()

        return asyncio.run(body())

    # -- what a context may ask ----------------------------------------------------------------------------------

    def progress(self, lease: Lease, value: Any) -> None:
        self._ask({"say": "progress", "value": encode(value, "progress", self._max_bytes)}, lease)

    def checkpoint(self, lease: Lease, value: Any) -> None:
        self._ask({"say": "checkpoint", "value": encode(value, "checkpoint", self._max_bytes)}, lease)

    def once(self, lease: Lease, step: str, work: Callable[[Any], Any]) -> Any:
        """Run the step with a store that the child opens: a connection cannot be passed between processes."""
        if self._app is None:
            raise errors.ConfigurationError("child_without_app")
        world = self._app.world
        if getattr(world.store, "in_memory", False):
            raise errors.ConfigurationError("child_in_memory")
        return claims.once(world, lease, step, work)

    def recall(self, lease: Lease, step: str) -> KeptResult | None:
        answer = self._ask({"say": "recall", "step": step}, lease)
        return KeptResult(json.loads(answer["value"])) if answer["known"] else None

    def keep(self, lease: Lease, step: str, value: Any) -> Any:
        text = encode_result(step, value, self._max_bytes)
        try:
            answer = self._ask({"say": "keep", "step": step, "value": text}, lease)
        except errors.LeaseLost:
            raise errors.LeaseLost(lease.job_id, lease.token, step=step) from None
        return json.loads(answer["value"])

    def parents(self, lease: Lease) -> tuple[ParentResult, ...]:
        return tuple(ParentResult(*each) for each in self._ask({"say": "parents"}, lease)["parents"])

    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending:
        answer = self._ask({"say": "spend", "cost": amounts_from(cost), "key": key}, lease)
        wait = answer["wait"]
        return Spending(answer["granted"], None if wait is None else timedelta(seconds=wait), answer["reason"])

    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None:
        self._ask({"say": "spent", "cost": amounts_from(cost), "key": key}, lease)

    def keep_line(self, ctx: Context, level: str, text: str) -> None:
        """Let the parent keep a line at once, so that it is there however this process ends."""
        self._channel.send({"say": "line", "level": level, "text": text[:LONGEST]})

    async def call(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    def _ask(self, message: Message, lease: Lease) -> Message:
        with self._asking:
            self._channel.send(message)
            answer = self._answers.get()
        if answer["error"] == errors.LeaseLost.__name__:
            raise errors.LeaseLost(lease.job_id, lease.token)
        if answer["error"]:
            kind = getattr(errors, answer["error"], errors.HoraeError)
            raise kind(answer["text"])
        return answer


class _Forward(logging.Handler):
    """Send log records to the parent; values that are not JSON are sent as text."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        try:
            extra = {name: value for name, value in vars(record).items() if name not in RECORD}
            self._channel.send(
                {
                    "say": "log",
                    "name": record.name,
                    "level": record.levelno,
                    "text": record.getMessage()[:20_000],
                    "created": record.created,
                    "where": [record.pathname, record.lineno, record.funcName],
                    "trace": "".join(traceback.format_exception(*record.exc_info))[:20_000] if record.exc_info else "",
                    "extra": {name: v if isinstance(v, TELLABLE) else repr(v) for name, v in extra.items()},
                }
            )
        except Exception:
            self.handleError(record)


# -- finding the handler -----------------------------------------------------------------------------------------


def _import(name: str) -> types.ModuleType:
    return importlib.import_module(name)


def _main_module(main: Message) -> types.ModuleType:
    """Run the parent's script under another name, so that its ``if __name__ == "__main__"`` part does not run."""
    known = sys.modules.get(MAIN)
    if known is not None:
        return known
    if main["module"]:
        content = runpy.run_module(main["module"], run_name=MAIN, alter_sys=True)
    elif main["path"]:
        content = runpy.run_path(main["path"], run_name=MAIN)
    else:
        raise errors.ConfigurationError("child_module_missing")
    module = types.ModuleType(MAIN)
    vars(module).update(content)
    sys.modules[MAIN] = sys.modules["__main__"] = module
    return module


def find_handler(module: types.ModuleType, order: Message) -> tuple[Callable[..., Any], Any]:
    """Return the function of a job, and the application that declared it if its module has one."""
    for handle in _handles(module, order["qualname"]):
        if handle.definition.name == order["name"]:
            return handle.definition.function, handle.app
    for app in _apps(module):
        definition = app.definitions.find(order["name"])
        if definition is not None:
            return definition.function, app
    target: Any = module
    for part in order["qualname"].split("."):
        target = getattr(target, part, None)
    if not callable(target):
        raise errors.ConfigurationError("child_handler_unknown", qualname=order["qualname"], module=order["module"])
    return target, None


def _handles(module: types.ModuleType, qualname: str) -> Iterator[Any]:
    named = getattr(module, qualname, None)
    yield from (value for value in [named, *vars(module).values()] if _is_handle(value))


def _apps(module: types.ModuleType) -> list[Any]:
    return [value for value in vars(module).values() if _is_ours(value, "Horae")]


def _is_handle(value: Any) -> bool:
    return _is_ours(value, "JobHandle") or _is_ours(value, "Verifier")


def _is_ours(value: Any, name: str) -> bool:
    return any(kind.__name__ == name and kind.__module__.startswith("horae.") for kind in type(value).__mro__)


def boot(line: int, parent: int) -> list[str]:
    """Return the command that starts a child; it sets the search path before it imports Horae."""
    code = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
        "from horae.runtime.worker.child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
    )
    return [sys.executable, "-c", code, str(line), str(parent), json.dumps(sys.path)]
