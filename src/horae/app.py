"""The application: wires clock, store, definitions and runtime. The only module that knows every floor."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from sqlalchemy import Engine

from horae.actions import jobs as verbs
from horae.actions.jobs import Enqueued, Request
from horae.clock import StoreClock, SystemClock, SystemDice
from horae.core.jobs import SYSTEM, Job, Priority
from horae.core.retry import Retry, span
from horae.definitions import Decide, Definition, Definitions, Runner, define
from horae.errors import ConfigurationError
from horae.ports import Clock, Dice, World
from horae.runtime.children import Children
from horae.runtime.context import Context
from horae.runtime.listeners import DeadListener, Listeners
from horae.runtime.worker import Worker, WorkerSettings
from horae.settings import database_url
from horae.stores.opening import create_store_engine, open_store
from horae.stores.sqlite import Synchronous
from horae.version import VERSION

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Options:
    """How one job is to be enqueued; None leaves it to the definition."""

    delay: timedelta | None = None
    run_at: datetime | None = None
    priority: Priority | None = None
    key: str | None = None
    unique: str | None = None
    queue: str | None = None
    retry: Retry | None = None
    timeout: timedelta | None = None
    owner: str = SYSTEM
    tags: tuple[str, ...] = ()
    trace_id: str | None = None
    strict: bool = False
    connection: Any = None


class JobHandle(Generic[P, R]):
    """A declared job: call it like the function it is, or enqueue it."""

    def __init__(self, app: Horae, definition: Definition, options: Options | None = None) -> None:
        self._app = app
        self.definition = definition
        self.options = options or Options()
        update_wrapper(self, definition.function)

    @property
    def app(self) -> Horae:
        """The application that declared this job."""
        return self._app

    @property
    def name(self) -> str:
        return self.definition.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function, here and now."""
        return self.definition.function(*args, **kwargs)

    def using(
        self,
        *,
        delay: timedelta | float | None = None,
        run_at: datetime | None = None,
        priority: Priority | None = None,
        key: str | None = None,
        unique: str | None = None,
        queue: str | None = None,
        retry: Retry | None = None,
        timeout: timedelta | float | None = None,
        owner: str | None = None,
        tags: Sequence[str] | None = None,
        trace_id: str | None = None,
        strict: bool | None = None,
        connection: Any = None,
    ) -> JobHandle[P, R]:
        """The same job with other options; they never mix with its arguments."""
        given = {
            "delay": None if delay is None else span(delay),
            "run_at": run_at,
            "priority": priority,
            "key": key,
            "unique": unique,
            "queue": queue,
            "retry": retry,
            "timeout": None if timeout is None else span(timeout),
            "owner": owner,
            "tags": None if tags is None else tuple(tags),
            "trace_id": trace_id,
            "strict": strict,
            "connection": connection,
        }
        named = {name: value for name, value in given.items() if value is not None}
        return JobHandle(self._app, self.definition, replace(self.options, **named))

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request:
        """What an enqueue with these arguments would ask for; for :meth:`Horae.enqueue_many`."""
        definition, options = self.definition, self.options
        arguments = definition.arguments(args, kwargs)
        return Request(
            handler=definition.name,
            payload=arguments,
            queue=options.queue or definition.queue,
            priority=options.priority or definition.priority,
            run_at=options.run_at,
            delay=options.delay,
            owner=options.owner,
            retry=options.retry or definition.retry,
            timeout=options.timeout or definition.timeout,
            key=options.key,
            unique=options.unique,
            concurrency_key=definition.key_for(arguments),
            concurrency_limit=definition.concurrency_limit,
            tags=options.tags,
            trace_id=options.trace_id,
            strict=options.strict,
        )

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Store a job with these arguments; durable when this returns."""
        request = self.request(*args, **kwargs)
        return verbs.enqueue(self._app.world, request, connection=_plain(self.options.connection))

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """The same without blocking the event loop."""
        request = self.request(*args, **kwargs)
        if self.options.connection is not None:
            return await _on_async_connection(self._app.world, request, self.options.connection)
        return await asyncio.to_thread(verbs.enqueue, self._app.world, request)

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """One job for each set of arguments, all in one transaction."""
        requests = [self.request(**call) for call in calls]  # type: ignore[call-arg]
        return verbs.enqueue_many(self._app.world, requests, connection=_plain(self.options.connection))


def _plain(connection: Any) -> Any:
    """A caller may hand over a Connection or a Session."""
    if connection is None or hasattr(connection, "exec_driver_sql"):
        return connection
    if hasattr(connection, "connection") and callable(connection.connection):
        return connection.connection()
    raise ConfigurationError(
        f"connection={type(connection).__name__} is neither an SQLAlchemy Connection nor a Session. From an "
        "AsyncSession or AsyncConnection use enqueue_async, or run_sync."
    )


async def _on_async_connection(world: World, request: Request, connection: Any) -> Enqueued:
    if not hasattr(connection, "run_sync"):
        return verbs.enqueue(world, request, connection=_plain(connection))
    joined: Enqueued = await connection.run_sync(lambda inner: verbs.enqueue(world, request, connection=_plain(inner)))
    return joined


class Horae:
    """One application's jobs, and the store that keeps them.

    Nothing is opened until it is needed, so that an application can be declared at import time.
    """

    def __init__(
        self,
        database: str | Engine | None = None,
        *,
        synchronous: Synchronous = "FULL",
        max_payload_bytes: int = 1024 * 1024,
        clock: Clock | None = None,
        dice: Dice | None = None,
    ) -> None:
        self.database = database or database_url(os.environ)
        self.definitions = Definitions()
        self.listeners = Listeners()
        self._synchronous = synchronous
        self.max_payload_bytes = max_payload_bytes
        self._clock = clock
        self._dice = dice
        self._opening = threading.Lock()
        self._world: World | None = None

    # -- the world -----------------------------------------------------------------------------------------------

    @cached_property
    def engine(self) -> Engine:
        if isinstance(self.database, Engine):
            return self.database
        return create_store_engine(self.database, self._synchronous)

    @property
    def world(self) -> World:
        """Store, clock and dice; opened on first use."""
        if self._world is None:
            with self._opening:
                if self._world is None:
                    self._world = self._open()
        return self._world

    def _open(self) -> World:
        store = open_store(self.engine)
        clock = self._clock or (StoreClock(store.read_time) if store.dialect.shares_clock else SystemClock())
        return World(store, clock, self._dice or SystemDice(), max_payload_bytes=self.max_payload_bytes)

    @contextmanager
    def using_world(self, world: World) -> Iterator[None]:
        """Let this application act in another world while the block runs, then in its own again.

        For tests: ``horae.testing.Lab`` puts a store in memory, a virtual clock and loaded dice in its place.
        """
        with self._opening:
            before, self._world = self._world, world
        try:
            yield
        finally:
            with self._opening:
                self._world = before

    def close(self) -> None:
        """Give all connections back. The application can be used again; it opens anew."""
        with self._opening:
            if self._world is not None:
                self._world.store.close()
            self._world = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- declaring -----------------------------------------------------------------------------------------------

    def job(
        self,
        name: str,
        *,
        queue: str = "default",
        priority: Priority = "medium",
        retry: Retry | None = None,
        timeout: timedelta | float | None = None,
        concurrency_key: str | Callable[..., str] | None = None,
        concurrency_limit: int = 1,
        executor: Runner | None = None,
        decide: Decide | None = None,
    ) -> _Declare:
        """Declare a function as a job. It stays a plain function that can be called directly.

        A first parameter named ``ctx``, or annotated :class:`Context`, receives the context.
        """
        options = {
            "queue": queue,
            "priority": priority,
            "retry": retry,
            "timeout": timeout,
            "concurrency_key": concurrency_key,
            "concurrency_limit": concurrency_limit,
            "executor": executor,
            "decide": decide,
        }
        return _Declare(self, name, options)

    def on_dead(self, listener: DeadListener) -> DeadListener:
        """Call *listener* with every job that dies in this process; sync or async, it can break nothing."""
        self.listeners.on_dead.append(listener)
        return listener

    # -- the verbs most people need --------------------------------------------------------------------------------

    def enqueue(self, name: str, /, **arguments: Any) -> Enqueued:
        """Enqueue a declared job by its name."""
        return JobHandle[Any, Any](self, self.definitions.get(name)).enqueue(**arguments)

    def enqueue_many(self, requests: Sequence[Request], *, connection: Any = None) -> list[Enqueued]:
        """Enqueue many different jobs (``handle.request(…)``) in one transaction."""
        return verbs.enqueue_many(self.world, requests, connection=_plain(connection))

    def get(self, job_id: str) -> Job:
        return verbs.get(self.world, job_id)

    # -- running -------------------------------------------------------------------------------------------------

    def worker(self, settings: WorkerSettings | None = None) -> Worker:
        """A worker for this application's jobs; ``await worker.run()`` serves until ``worker.stop()``."""
        settings = settings or WorkerSettings()
        fault = settings.fault or os.environ.get("HORAE_FAULT", "")
        return Worker(
            self.world,
            self.definitions.find,
            replace(settings, version=VERSION, fault=fault),
            self.listeners,
            Children(
                database=self.database if isinstance(self.database, str) else None, max_bytes=self.max_payload_bytes
            ),
        )

    @asynccontextmanager
    async def running(
        self,
        queues: Mapping[str, int] | None = None,
        *,
        lease: timedelta = timedelta(seconds=30),
        grace: timedelta = timedelta(seconds=30),
    ) -> AsyncIterator[Worker]:
        """Serve jobs inside this process while the block runs."""
        worker = self.worker(WorkerSettings(queues=dict(queues or {"default": 10}), lease=lease, grace=grace))
        serving = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await serving


class _Declare:
    """What ``@app.job(…)`` applies to a function; typed so that arguments are checked where jobs are enqueued."""

    def __init__(self, app: Horae, name: str, options: dict[str, Any]) -> None:
        self._app, self._name, self._options = app, name, options

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]]) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobHandle[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> JobHandle[Any, Any]:
        definition = define(self._name, function, context_type=Context, **self._options)
        self._app.definitions.add(definition)
        return JobHandle(self._app, definition)
