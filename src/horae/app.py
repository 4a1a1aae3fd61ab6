"""The application: wires clock, store, definitions and runtime. The only module that knows every floor."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from sqlalchemy import Engine

from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Enqueued, Request
from horae.actions.retention import Retention
from horae.actions.rules import job_rules
from horae.actions.schedules import declared as declaring
from horae.actions.schedules.declared import Plan
from horae.api.application import Acting
from horae.api.here import Here, house, usual_terms
from horae.api.jobs import remote
from horae.api.jobs.room import Job
from horae.api.rooms import Rooms
from horae.clock import SystemClock, SystemDice, clock_of, pause, zone_database_version
from horae.core.bus import PREFIX, check_prefix
from horae.core.governance.objects import GOVERNANCE
from horae.core.jobs.job import GOVERN, SLOTS
from horae.core.jobs.machinery import queue_name
from horae.core.jobs.payloads import label
from horae.core.jobs.retry import Retry
from horae.core.metrics import Family
from horae.core.schedules.job_status import JobStatus
from horae.core.schedules.schedule import Schedule
from horae.core.time.spans import Span, span
from horae.core.timeouts import Timeouts
from horae.declare.check import Seed, about_executors, check_seed, needs_database, plan_of, problems_of, seeds_of
from horae.declare.declarations import Problem, raise_for
from horae.declare.definitions import Definition
from horae.declare.handles import Blueprint, JobHandle, plain_connection
from horae.declare.jobs_conf import JobsFile, find_file, module_of, read_files
from horae.declare.opening import Opener
from horae.declare.overrides import merge
from horae.errors import ConfigurationError, HoraeError, MissingExtra, NeedsDatabase, NotFound, StoreError
from horae.limits.limiter import families as rate_limit_families
from horae.limits.locks import open_locks
from horae.ports.access import Sealer
from horae.ports.locks import Limiter, LockManager
from horae.ports.store import Store
from horae.ports.workers import JobSource
from horae.ports.world import Clock, Dice, Tracing, World
from horae.runtime.chores.janitor import CHORES, Chore, cleaning
from horae.runtime.chores.keeper import Beside, Keeper, MakeBeside, keeping
from horae.runtime.chores.messenger import messengers
from horae.runtime.chores.outboxes import outboxes
from horae.runtime.database import DatabaseThreads
from horae.runtime.enqueued import EnqueuedBatch, EnqueuedJob, Origin, waitable
from horae.runtime.schedules.declared import Declared
from horae.runtime.sources.store import StoreSource
from horae.runtime.worker.assignment import Assignment
from horae.runtime.worker.children import Children
from horae.runtime.worker.hosted import Hosted
from horae.runtime.worker.listeners import DeadListener, JobExecutionListener, Listeners, Teller
from horae.runtime.worker.metrics import Measures
from horae.runtime.worker.services import Services
from horae.runtime.worker.worker import Worker, WorkerSettings
from horae.settings import Settings, database_url, is_on, one_setting, timeouts
from horae.stores.cluster.opening import with_cluster
from horae.stores.opening import create_store_engine, open_store
from horae.telemetry import OpenTelemetry
from horae.version import VERSION

if TYPE_CHECKING:
    from fastapi import FastAPI

    from horae.api.operation import Call
    from horae.client.service import Service
    from horae.runtime.sources.bus_line import BusAddress, BusLine
    from horae.stores.databases.sqlite import Synchronous

__all__ = ["Blueprint", "Horae", "JobHandle"]

# size: the one place where every floor is wired
log = logging.getLogger("horae.app")


class Horae(Blueprint, Acting):
    """One application's jobs, and the store that keeps them.

    Nothing is opened until it is needed, so that an application can be declared at import time. *name* tells
    applications on one store apart; the default is the module that made this one. *config* names the
    file that overrides declared jobs; else it is ``jobs.conf`` beside that module or in the current folder. With
    *enabled* False nothing is scheduled, unless that file says ``enabled = true``; triggers and enqueues still run.
    With *lenient* its cron may use names, L, W, # and nicknames, in declarations and in schedules made through it.
    *timeouts* bound every wait for a database server; else the environment does. *release* names the version of the
    application that is deployed, for error groups; else ``HORAE_RELEASE`` does.
    """

    def __init__(
        self,
        database: str | Engine | None = None,
        *,
        name: str | None = None,
        config: str | Path | None = None,
        environment: str | None = None,
        enabled: bool = True,
        lenient: bool = False,
        synchronous: Synchronous = "FULL",
        max_payload_bytes: int = 1024 * 1024,
        timeouts: Timeouts | None = None,
        release: str | None = None,
        clock: Clock | None = None,
        dice: Dice | None = None,
    ) -> None:
        Blueprint.__init__(self, lenient=lenient)
        Acting.__init__(self, self._acting_here)
        self.database = database or database_url(os.environ)
        module, self._folder = module_of(sys._getframe(1).f_globals)
        self.name = name or module
        self.config = config
        named = release or one_setting(os.environ, "release")
        self.release = None if named is None else label(named, "release", 100)
        self.environment = environment
        self.enabled = enabled
        self.listeners = Listeners()
        self.services = Services()
        self.rates: dict[str, Limiter] = {}
        self.chores: list[Chore] = []  # what one process of this application does now and then
        self.beside: list[MakeBeside] = []  # loops that go on beside them
        self._seeds: tuple[Seed, ...] = ()
        self._loads_persisted = False
        self.lock_prefix: str | None = None  # before the keys of locks in Redis; else HORAE_LOCK_PREFIX, else horae
        self._locks: LockManager | str | None = "database"
        self._opened_locks: tuple[World, LockManager] | None = None
        self._synchronous = synchronous
        self._timeouts = timeouts
        self.max_payload_bytes = max_payload_bytes
        self._clock = clock
        self._dice = dice
        self._tracing: Tracing | None = OpenTelemetry() if is_on(os.environ, "HORAE_OTEL") else None
        self._opener = Opener(lambda: self._open())
        self._hosted: Hosted | None = None
        self._measures: Measures | None = None
        self._service: Service | None = None  # on which it acts instead of a database
        self._bus: BusAddress | None = None  # from which its workers take jobs instead
        self._lines: list[BusLine] = []
        self._line_lock = threading.Lock()

    # -- the world -----------------------------------------------------------------------------------------------

    @cached_property
    def engine(self) -> Engine:
        if isinstance(self.database, Engine):
            return self.database
        return create_store_engine(self.database, self._synchronous, self.timeouts)

    @cached_property
    def timeouts(self) -> Timeouts:
        """The timeouts of this application's database connections; from the environment unless given."""
        return self._timeouts or timeouts(os.environ)

    @property
    def world(self) -> World:
        """Store, clock and dice; opened on first use."""
        return self._opener.world

    def _acting_here(self) -> Here:
        return Here(
            self.world,
            house(f"app/{self.name}"),
            terms=lambda: self.definitions.task_terms(usual_terms()),
            sealer=_sealer,
            doctor=_doctor,
        )

    def use_service(self, url: str, token: str | None = None) -> None:
        """Act on a service instead of a database: enqueue there, and execute its jobs.

        What needs a database is listed by :meth:`needs_database`; using it raises ``NeedsDatabase``.
        """
        from horae.client.service import InThreads, Service

        self._service = Service(url, token)
        Rooms.__init__(self, self._service.sender)
        self.aio = Rooms(InThreads(self._service.sender))

    def use_bus(
        self, servers: str | Sequence[str], *, stream: str = "HORAE", prefix: str = PREFIX, **options: Any
    ) -> None:
        """Take jobs from a relay on NATS JetStream instead of a database, execute them, and enqueue others there.

        *options* go to ``nats.connect``. What needs a database is listed by :meth:`needs_database`; using it, and every
        operation but enqueues, raises ``NeedsDatabase``.
        """
        from horae.runtime.sources.bus_line import BusAddress
        from horae.runtime.sources.nats import AsyncBusOperations, BusOperations

        named = (servers,) if isinstance(servers, str) else tuple(servers)
        self._bus = BusAddress(named, check_prefix(prefix), stream, options)
        operations = BusOperations(self._bus_line, lambda: self.world.dice)
        Rooms.__init__(self, operations)
        self.aio = Rooms(AsyncBusOperations(operations))

    def _bus_line(self, call: Call[Any]) -> BusLine:
        """Return a line to the bus for an enqueue: that of its worker, else one of its own."""
        from horae.runtime.sources.bus_line import BusLine

        assert self._bus is not None
        if not self._bus.servers:
            raise NeedsDatabase("bus_not_in_child", operation=f"{call.method} {call.path}")
        with self._line_lock:
            line = next((each for each in self._lines if not each.is_closed), None)
            if line is None:
                self._lines.append(line := BusLine(self._bus, self.world.clock, self.world.dice))
            return line

    @property
    def acts_on_service(self) -> bool:
        """Whether it acts on a service, or over a bus, instead of a database."""
        return self._service is not None or self._bus is not None

    def find_handler(self, name: str) -> Definition | None:
        """Return what runs jobs of a name in this process; jobs about objects always have a handler."""
        found = self.definitions.find(name)
        if found is None and name.startswith(f"{GOVERN}."):
            from horae.declare.verifiers import built_in

            found = self.definitions.find(GOVERN) or built_in(self)
        return found

    @property
    def served_queues(self) -> list[str]:
        """Return the queues that a worker of this application serves unless told otherwise."""
        own = {each.queue for each in self.definitions}
        return sorted({"default", *own} | (set() if self.acts_on_service else {GOVERNANCE}))

    def needs_database(self) -> list[Problem]:
        """Return everything declared here that cannot run where only a service is reached."""
        return needs_database(self, self.jobs_file(), has_own_locks=self._locks != "database", rates=self.rates)

    def _open(self) -> World:
        if self.acts_on_service:
            from horae.runtime.sources.http import NoStore  # a worker with a database never needs it

            return self._world(cast("Store", NoStore()), SystemClock())
        store = open_store(self.engine, self.timeouts, owned=not isinstance(self.database, Engine))
        alone = self._world(store, clock_of(store))
        return with_cluster(
            alone,
            store,
            urls=one_setting(os.environ, "cluster_urls"),
            make_clock=lambda each: self._clock or clock_of(each),
            timeouts=self.timeouts,
        )

    def _world(self, store: Store, clock: Clock) -> World:
        dice = self._dice or SystemDice()
        return World(
            store,
            self._clock or clock,
            dice,
            max_payload_bytes=self.max_payload_bytes,
            shortest_interval=one_setting(os.environ, "shortest_interval"),
            tzdata=zone_database_version(),
            tracing=self._tracing,
            rules=job_rules(dice),
            retention=self.retention,
            lenient=self.lenient,
        )

    def trace(self, tracing: Tracing | None) -> None:
        """Trace what is enqueued and run from now on; ``horae.telemetry.instrument(app)`` calls this."""
        self._tracing = tracing
        self._opener.change(lambda world: replace(world, tracing=tracing))

    def wait_for_store(self) -> None:
        """Open the store, however long it takes to answer; blocks the thread."""
        self._opener.wait(pause)

    @contextmanager
    def using_world(self, world: World) -> Iterator[None]:
        """Let this application act in another world while the block runs, then in its own again.

        For tests: ``horae.testing.Lab`` puts a store in memory, a virtual clock and loaded dice in its place.
        """
        with self._opener.using(world):
            yield

    def close(self) -> None:
        """Give all connections back. The application can be used again; it opens anew."""
        self._opener.close()
        if self._service is not None:
            self._service.close()
        lines, self._lines = self._lines, []
        for each in lines:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what declared jobs need ---------------------------------------------------------------------------------

    def provide(self, kind: Any, made: Any = None, *, per_run: bool = False) -> None:
        """Provide what handlers ask for by type: a value, or a factory, sync or async, for the app or for each run."""
        self.services.provide(kind, made, per_run=per_run)

    def listen(self, listener: JobExecutionListener) -> JobExecutionListener:
        """Tell *listener* of the runs of scheduled jobs; several are allowed, and none can break a job."""
        self.listeners.add_execution(listener)
        return listener

    def on_dead(self, listener: DeadListener) -> DeadListener:
        """Call *listener* with every job that dies in this process; sync or async, it can break nothing."""
        self.listeners.add_dead(listener)
        return listener

    def limit_rate(self, queue: str, limiter: Limiter) -> None:
        """Limit how often jobs of a queue start here; a limiter on a shared log counts for all workers together."""
        self.rates[queue_name(queue)] = limiter

    @property
    def locks(self) -> LockManager | None:
        """Who keeps SINGLE_NODE jobs apart: ``"database"`` (default), ``"memory"``, a Redis URL, or your own."""
        if not isinstance(self._locks, str):
            return self._locks
        if self._opened_locks is None or self._opened_locks[0] is not self.world:
            prefix = self.lock_prefix or one_setting(os.environ, "lock_prefix")
            self._opened_locks = (self.world, open_locks(self._locks, self.world, holder=self.name, prefix=prefix))
        return self._opened_locks[1]

    @locks.setter
    def locks(self, manager: LockManager | str | None) -> None:
        self._locks, self._opened_locks = manager, None

    # -- declared schedules --------------------------------------------------------------------------------------

    def jobs_file(self) -> JobsFile:
        """Read ``jobs.conf``."""
        settings = Settings.read(os.environ)
        folders = [folder for folder in (self._folder, Path.cwd()) if folder is not None]
        path = find_file(str(self.config) if self.config else settings.jobs_conf, folders)
        return read_files(path, self.environment or settings.environment)

    def _configure(self, declared: list[Definition]) -> Iterable[Definition]:
        """Return the definitions with the options of the file.

        An option that is wrong leaves its job as code declares it: a process that only enqueues goes on with a warning,
        while a worker refuses to start.
        """
        try:
            definitions, problems = merge(declared, self.jobs_file())
        except HoraeError as problem:
            log.warning("jobs are enqueued as code declares them, without the file: %s", problem)
            return declared
        for each in problems:
            if each.severity == "error":
                log.warning("an option of the file is left out: %s: %s", each.where, each.text)
        return definitions

    def problems(self) -> list[Problem]:
        """Return every error and warning about the declarations, over all modules and the file."""
        return [*self._declared_problems(), *about_executors(self, self.jobs_file())]

    def _declared_problems(self) -> list[Problem]:
        """Return the problems that also concern a process which runs no jobs."""
        self.definitions.read_again()
        has_locks, seeds = self._locks is not None, self._seeds
        return problems_of(self, self.jobs_file(), has_locks=has_locks, services=self.services, seeds=seeds)

    def plan(self) -> Plan:
        """Return the schedules that code and file declare; refuse declarations that cannot work."""
        raise_for(self._declared_problems())
        return plan_of(self, self.jobs_file(), self.name, self._seeds, self._loads_persisted, enabled=self.enabled)

    def declare_schedules(self) -> list[Schedule]:
        """Bring the store in line with code and file, as a worker does when it starts."""
        return declaring.bring_in_line(self.world, self.plan())

    def seed_schedules(self, seeds: Sequence[Seed]) -> None:
        """Insert these defaults when the application starts, unless they are there; later changes stay.

        ``{"id": "nightly", "handler": "sync", "cron": "0 3 * * *", "zone": "Asia/Shanghai"}``: the id names the
        schedule, the handler is the same unless given, and every timing option of ``@app.job`` may follow. Handlers
        may be declared later, or come with the registry of :meth:`load_persisted_jobs`.
        """
        self._seeds += tuple(check_seed(seed) for seed in seeds)

    def load_persisted_jobs(self, registry: Mapping[str, Callable[..., Any]] | None = None) -> list[str]:
        """Run every enabled schedule of the store whose handler *registry*, or a declaration, knows.

        Others are kept, inactive, with a warning. A store that does not answer is reported, and asked again when a
        worker starts.
        """
        for name, function in (registry or {}).items():
            if self.definitions.find(name) is None:
                self.job(name, retry=Retry.none())(function)
        self._loads_persisted = True
        known = {definition.name for definition in self.definitions}
        try:
            declaring.declare(self.world, seeds_of(self._seeds, self.definitions)[0], seed=True, app=self.name)
            return [schedule.key for schedule in declaring.load_persisted(self.world, known, app=self.name)]
        except StoreError as problem:
            log.error("persisted jobs could not be loaded, and will be when a worker starts: %s", problem)
            return []

    # -- the verbs most people need --------------------------------------------------------------------------------

    def enqueue(self, name: str, /, **arguments: Any) -> EnqueuedJob:
        """Enqueue a declared job by its name."""
        return JobHandle[Any, Any](self, self.definitions.get(name)).enqueue(**arguments)

    def enqueue_many(self, requests: Sequence[Request], *, connection: Any = None) -> list[EnqueuedJob]:
        """Enqueue many different jobs (``handle.request(…)``) in one transaction."""
        return self.store_jobs(requests, plain_connection(connection))

    def batch(
        self,
        requests: Iterable[Request],
        *,
        name: str = "",
        key: str | None = None,
        on_end: Request | None = None,
        on_success: Request | None = None,
        on_failure: Request | None = None,
    ) -> EnqueuedBatch:
        """Store jobs (``handle.request(…)``) as one batch, in one transaction, and return it.

        When all of them have ended, *on_end* runs; *on_success* when all have succeeded, *on_failure* when one is dead
        or was cancelled. Each runs once, whatever crashes, and reads the results by ``ctx.parents()``. The same *key*
        with the same request again is the same batch.
        """
        made = self.batches.create(
            requests, name=name, key=key, on_end=on_end, on_success=on_success, on_failure=on_failure
        )
        return EnqueuedBatch(made.id, Origin(self, is_joined=False))

    def store_jobs(self, requests: Iterable[Request], connection: Any = None) -> list[EnqueuedJob]:
        """Store jobs where this application acts; what handles and :meth:`enqueue_many` call."""
        if not self.acts_on_service:
            if connection is None:
                return self.waitable(verbs.enqueue_many(self.world, requests))
            with self.joining(connection) as joined:
                placed = verbs.enqueue_many(self.world, requests, connection=joined)
            return self.waitable(placed, connection)
        return self.waitable(remote.enqueue(self.jobs, self.world, list(requests), connection))

    def joining(self, connection: Any) -> AbstractContextManager[Any]:
        """Lend the transaction of a caller's connection: SQLAlchemy's, Django's, or one of our drivers'."""
        if connection is None or hasattr(connection, "exec_driver_sql"):
            return nullcontext(connection)
        from horae.stores.databases.joined_transaction import joined  # few callers bring a connection of another kind

        return joined(self.engine, connection)

    def waitable(self, placed: list[Enqueued], connection: Any = None) -> list[EnqueuedJob]:
        """Return stored jobs as ones that can be waited for here."""
        return waitable(placed, self, is_joined=connection is not None)

    def get(self, job_id: str) -> Job:
        """Return one job, live or finished."""
        return self.jobs.get(job_id)

    def trigger(self, name: str, /, **arguments: Any) -> str | None:
        """Run a declared job now, enabled or not, beside its schedule; return its id, or None when it already runs."""
        handle = JobHandle[Any, Any](self, self.definitions.get(name), None)
        planned = next((schedule for schedule in self.plan().schedules if schedule.key == name), None)
        if planned is None:
            return handle.using(retry=Retry.none()).enqueue(**arguments).id
        handle.definition.arguments((), {**planned.payload, **arguments})  # what does not fit is refused now
        try:
            return self.schedules.trigger(name, arguments).job_id
        except NotFound:  # no worker of this application has started yet
            self.declare_schedules()
            return self.schedules.trigger(name, arguments).job_id

    def snapshot(self) -> list[JobStatus]:
        """Return the status of each job of this application, over the whole cluster; counts outlive the log."""
        return declaring.snapshot(self.world, self.plan())

    def asgi(self, settings: Settings | None = None, **options: Any) -> FastAPI:
        """Return the HTTP service over this application's store, to be served or mounted:
        ``app.mount("/horae", h.asgi())``.

        Settings come from the environment; *options* (``horae.service.options.Options``) win over them. Served by
        itself it also does what a store needs where no worker runs, unless ``HORAE_SERVER_CHORES`` is off; mounted it
        does not.
        """
        try:
            from horae.server.process import application
        except ModuleNotFoundError as problem:
            raise MissingExtra("service_extra_missing", module=problem.name) from problem
        given = {
            "handlers": lambda: {each.name: each for each in self.definitions},
            "figures": self.figures,
            "died": self.listeners.tell_dead,
            **options,
        }
        opens = given.pop("opens", lambda: self.world)
        chosen = settings or Settings.read(os.environ)
        if chosen.server_chores and not self.acts_on_service:
            given.setdefault("beside", lambda: keeping(opens, self._keeper, SystemDice()))
        return application(chosen, opens, **given)

    def _keeper(self, world: World, database: DatabaseThreads, name: str, *, is_further: bool = False) -> Keeper:
        """Return what looks after a store in a process without a worker."""
        chores = (cleaning(self.retention), *CHORES, *self._cluster_chores(), *self._own_chores())
        kept = replace(world, retention=self.retention)
        once = () if is_further else (*self._loops_beside(), *outboxes(self.world))
        beside = (*once, *messengers(self.world))
        return Keeper(kept, database, name, chores, Teller(self.listeners).dead, beside=beside)

    def _loops_beside(self) -> list[MakeBeside]:
        """Return the loops beside the chores; in a cluster they are for all databases at once."""
        if not self.beside or self.acts_on_service or self.world.cluster is None:
            return self.beside
        return [partial(_make_everywhere, make, self.world) for make in self.beside]

    def _cluster_chores(self) -> list[Chore]:
        """Return what databases of a cluster need beside; nothing for a single one."""
        if self.world.cluster is None:
            return []
        from horae.runtime.chores.settings import parts_of_acts, shared_settings

        return [shared_settings(self.world), parts_of_acts(self.world)]

    def _own_chores(self) -> list[Chore]:
        """Return this application's chores: its processes take turns, and another application's do not count."""
        return [replace(each, lock=each.lock or f"{self.name}: {each.name}", goes_on=False) for each in self.chores]

    # -- running -------------------------------------------------------------------------------------------------

    def worker(self, settings: WorkerSettings | None = None) -> Worker:
        """Return a worker for this application's jobs; ``await worker.run()`` serves until ``worker.stop()``."""
        raise_for(about_executors(self, self.jobs_file()))
        settings = settings or WorkerSettings()
        source = self._job_source(settings)
        plan: Callable[[], Plan] | None = None if self.acts_on_service else self.plan
        if self.acts_on_service:
            settings = replace(settings, fires=False, cleans=False)
        settings = replace(
            settings,
            version=VERSION,
            release=settings.release or self.release,
            fault=settings.fault or os.environ.get("HORAE_FAULT", ""),
            retention=settings.retention or self.retention,
            rates={**self.rates, **settings.rates},
            chores=(*CHORES, *self._cluster_chores(), *self._own_chores(), *settings.chores),
            beside=(*self._loops_beside(), *settings.beside),
        )
        cluster, deliver = self.world.cluster, messengers(self.world)
        settings = replace(settings, beside=(*settings.beside, *deliver, *outboxes(self.world)))
        made = self._worker_on(self.world if cluster is None else cluster.opened(self.world), source, settings, plan)
        if cluster is not None:
            guests = replace(settings, beside=deliver)  # the host's other loops are for all databases
            assignment = Assignment(self.world, made.node_id, settings.queues)
            made.host(assignment, lambda shard: self._worker_on(shard, None, guests, None, made))
        self._measures = made.measures
        return made

    def _worker_on(
        self,
        world: World,
        source: JobSource | None,
        settings: WorkerSettings,
        plan: Callable[[], Plan] | None,
        host: Worker | None = None,
    ) -> Worker:
        """Return the worker of one database; the first of a cluster writes the plan, for all of them."""
        database = self.database if isinstance(self.database, str) else None
        service = None if self._service is None else (self._service.url, self._service.token)
        return Worker(
            world,
            source or StoreSource(world, self.world),
            self.find_handler,
            settings,
            self.listeners,
            Children(
                database=database, service=service, is_on_bus=self._bus is not None, max_bytes=self.max_payload_bytes
            ),
            Declared(
                world,
                self.listeners,
                plan=plan,
                ttls=None if plan else {each.key: each.lock_ttl for each in self.plan().schedules},
                services=self.services,
                locks=lambda: self.locks,
                everywhere=self.world,
                is_guest=host is not None,
            ),
            measures=None if host is None else host.measures,
        )

    def _job_source(self, settings: WorkerSettings) -> JobSource | None:
        """Return where a worker takes its jobs from, None for its database; refuse what needs one and has none."""
        if not self.acts_on_service:
            return None
        if needs := self.needs_database():
            reasons = [each.error.reason for each in needs]
            raise NeedsDatabase("worker_needs_database", problems=[str(each) for each in needs], reasons=reasons)
        from horae.runtime.sources.http import HttpSource, declare_to

        clock, most = self.world.clock, self.max_payload_bytes
        if self._service is not None:
            client = self._service.worker_client(settings.lease)
            declare = lambda: declare_to(client.admin, self.plan().definitions, self.name)  # noqa: E731  # beside the call that takes it
            return HttpSource(client.jobs, self.jobs, clock, most, declare)
        from horae.runtime.sources.bus_line import BusLine
        from horae.runtime.sources.nats import NatsSource

        assert self._bus is not None
        self._lines.append(line := BusLine(self._bus, clock, self.world.dice))
        source = NatsSource(line, clock, most, settings.lease)
        return source.declares(lambda: declare_to(source.admin, self.plan().definitions, self.name))

    @property
    def retention(self) -> Retention:
        """Return how long its workers keep what has ended, from the environment (``HORAE_KEEP_RUNS`` and the like)."""
        return Retention.read(lambda name: one_setting(os.environ, name))

    def figures(self) -> list[Family]:
        """Return what worker and rate limiters of this process have counted, for ``/metrics``."""
        return [*([] if self._measures is None else self._measures.families()), *rate_limit_families()]

    async def start(
        self,
        queues: Mapping[str, int] | None = None,
        *,
        lease: timedelta = timedelta(seconds=30),
        grace: timedelta = timedelta(seconds=30),
    ) -> Hosted:
        """Serve jobs inside this process until :meth:`shutdown`.

        Bad declarations are refused; a store that does not answer yet is waited for beside other work of the loop.
        """
        if self._hosted is not None:
            raise ConfigurationError("application_already_running")
        raise_for(self.problems())
        named = queues or dict.fromkeys(self.served_queues, SLOTS)
        settings = WorkerSettings(queues=dict(named), lease=lease, grace=grace)
        self._hosted = hosted = Hosted(lambda: self.worker(settings), SystemDice())
        await hosted.ready()
        return hosted

    async def shutdown(self, timeout: Span | None = None) -> None:  # noqa: ASYNC109 - document 003's word
        """Schedule nothing more, wait for what runs up to *timeout* (else the grace), then cancel it."""
        hosted, self._hosted = self._hosted, None
        if hosted is not None:
            await hosted.stop(None if timeout is None else span(timeout))

    @asynccontextmanager
    async def running(
        self,
        queues: Mapping[str, int] | None = None,
        *,
        lease: timedelta = timedelta(seconds=30),
        grace: timedelta = timedelta(seconds=30),
    ) -> AsyncIterator[Hosted]:
        """Serve jobs inside this process while the block runs."""
        hosted = await self.start(queues, lease=lease, grace=grace)
        try:
            yield hosted
        finally:
            await self.shutdown()

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[dict[str, Any]]:
        """For web frameworks: ``FastAPI(lifespan=app.lifespan)`` serves jobs while the web application runs."""
        async with self.running() as hosted:
            yield {"horae": hosted}


def _make_everywhere(make: MakeBeside, everywhere: World, _: World, name: str) -> Beside:
    return make(everywhere, name)


def _doctor(world: World) -> Any:
    from horae.doctor.in_process import examine_world

    return examine_world(world, Settings.read(os.environ), os.environ)


def _sealer() -> Sealer | None:
    """Return what seals secrets, as the environment says; imported when the first secret is kept."""
    from horae.outgoing.encryption import sealer_from

    return sealer_from(os.environ)
