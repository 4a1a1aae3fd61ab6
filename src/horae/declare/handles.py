"""Declared jobs as an application uses them: call them, enqueue them, collect them.

``Blueprint`` collects declarations without an application, as a router collects paths, so that several modules can be
merged into one with ``app.include(jobs)``.
"""

# size: a handle and the blueprint that it belongs to name each other

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from horae.actions.jobs.requests import AlikeRequests, Checked, Enqueued, Request, make_request
from horae.actions.schedules.exclusive import start_exclusively
from horae.core.checks import texts
from horae.core.dataclass import dataclass
from horae.core.jobs.expectations import NOTHING, job_expect
from horae.core.jobs.gathered_jobs import Collect, Debounce
from horae.core.jobs.job import PRIORITIES, SYSTEM, OnParentDead, Priority, band_of
from horae.core.jobs.machinery import queue_name
from horae.core.jobs.retry import Retry, time_limit
from horae.core.jobs.running_limits import check_max_running, limit_name
from horae.core.schedules.expect import Expect
from horae.core.time.spans import Span, span
from horae.declare.declarations import Problem, define_job, refuse
from horae.declare.definitions import Definition, Definitions, Runner, checked_gather
from horae.declare.options import JobOptions, options_text
from horae.declare.using import using_text
from horae.errors import ConfigurationError, DefinitionError, InvalidInput
from horae.ports.world import World
from horae.runtime.enqueued import EnqueuedJob
from horae.runtime.worker.context import Context

if TYPE_CHECKING:
    from horae.declare.verifiers import Verifier

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Options:
    """Options of one enqueue; None leaves the choice to the definition."""

    delay: timedelta | None = None
    run_at: datetime | None = None
    priority: Priority | None = None
    key: str | None = None
    unique: str | None = None
    queue: str | None = None
    retry: Retry | None = None
    timeout: timedelta | None = None
    budget: str | None = None
    cost: Mapping[str, int] | None = None
    owner: str = SYSTEM
    after: tuple[str, ...] = ()
    on_parent_dead: OnParentDead = "cancel"
    tags: tuple[str, ...] = ()
    trace_id: str | None = None
    strict: bool = False
    connection: Any = None
    debounce: Debounce | None = None
    collect: Collect | None = None
    expect: str | None = None  # "none": nothing, whatever is declared
    shard_key: str | None = None


class JobHandle(Generic[P, R]):
    """A declared job: call it like the function it is, or enqueue it."""

    def __init__(self, home: Blueprint, definition: Definition, options: Options | None = None) -> None:
        self._home = home
        self._declared = definition
        self.options = options or Options()
        self._checked: tuple[Definition, Checked] | None = None  # by the definition as it was then
        update_wrapper(self, definition.built or definition.function, updated=())

    @property
    def app(self) -> Blueprint:
        """Return the application that declared this job."""
        return self._home.home

    @property
    def definition(self) -> Definition:
        """The function and the policy of its jobs, as code and ``jobs.conf`` declare them together."""
        return self._home.home.definitions.find(self._declared.name) or self._declared

    @property
    def name(self) -> str:
        return self._declared.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function here and now; for a class, make an instance of it."""
        return (self._declared.built or self._declared.function)(*args, **kwargs)

    def using(
        self,
        *,
        delay: Span | None = None,
        run_at: datetime | None = None,
        priority: Priority | None = None,
        key: str | None = None,
        unique: str | None = None,
        queue: str | None = None,
        retry: Retry | None = None,
        timeout: Span | None = None,
        budget: str | None = None,
        cost: Mapping[str, int] | None = None,
        owner: str | None = None,
        after: Sequence[str | Enqueued] | None = None,
        on_parent_dead: OnParentDead | None = None,
        tags: Sequence[str] | None = None,
        trace_id: str | None = None,
        strict: bool | None = None,
        connection: Any = None,
        debounce: Debounce | Span | None = None,
        collect: Collect | None = None,
        expect: Expect | str | None = None,
        shard_key: str | None = None,
    ) -> JobHandle[P, R]:
        """Return the same job with other options; they never mix with its arguments."""
        debounced, collecting = checked_gather(debounce, collect)
        given = {
            "delay": None if delay is None else span(delay),
            "run_at": run_at,
            "priority": None if priority is None else PRIORITIES[band_of(priority)],
            "key": key,
            "unique": unique,
            "queue": None if queue is None else queue_name(queue),
            "retry": _policy(retry),
            "timeout": time_limit(timeout),
            "budget": budget,
            "cost": cost,
            "owner": owner,
            "after": None if after is None else tuple(each if isinstance(each, str) else each.id for each in after),
            "on_parent_dead": on_parent_dead,
            "tags": None if tags is None else texts(tags, "tags"),
            "trace_id": trace_id,
            "strict": strict,
            "connection": connection,
            "debounce": debounced,
            "collect": collecting,
            "expect": None if expect is None else job_expect(expect) or NOTHING,
            "shard_key": shard_key,
        }
        named = {name: value for name, value in given.items() if value is not None}
        return JobHandle(self._home, self._declared, replace(self.options, **named))

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request:
        """Return the request that an enqueue with these arguments would store; for :meth:`Horae.enqueue_many`."""
        definition = self.definition
        return self._request(definition, definition.arguments(args, kwargs))

    def _request(self, definition: Definition, arguments: dict[str, Any], *, alike: bool = False) -> Request:
        """Return the request; with *alike* what it shares with those for other arguments."""
        options = self.options
        debounce, collect = options.debounce, options.collect
        if debounce is None and collect is None and (definition.debounce is not None or definition.collect is not None):
            debounce, collect = definition.gather_for(arguments)
        return make_request(
            definition.name,
            arguments,
            definition.queue if options.queue is None else options.queue,
            definition.priority if options.priority is None else options.priority,
            options.run_at,
            options.delay,
            None,
            options.owner,
            definition.retry if options.retry is None else options.retry,
            definition.timeout if options.timeout is None else options.timeout,
            options.key,
            options.unique,
            None if alike else definition.key_for(arguments),
            definition.concurrency_limit,
            options.tags,
            options.trace_id,
            after=options.after,
            on_parent_dead=options.on_parent_dead,
            strict=options.strict,
            budget=definition.budget if options.budget is None else options.budget,
            cost=definition.cost if options.cost is None else options.cost,
            debounce=debounce,
            collect=collect,
            expect=definition.expect if options.expect is None else options.expect,
            shard_key=options.shard_key,
        )

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> EnqueuedJob:
        """Store a job with these arguments; durable when this returns."""
        definition = self.definition
        arguments = definition.arguments(args, kwargs)
        if self._stores_alike(definition):
            asked = self._alike(definition, [arguments])
            return self._home.store_jobs(asked, plain_connection(self.options.connection))[0]
        return self._store(self._request(definition, arguments), plain_connection(self.options.connection))

    def _stores_alike(self, definition: Definition) -> bool:
        """Return whether jobs of this handle differ in their arguments alone, and none is gathered with others."""
        gathers = (definition.debounce, definition.collect, self.options.debounce, self.options.collect)
        return definition.concurrency_key is None and all(each is None for each in gathers)

    def _alike(self, definition: Definition, arguments: list[dict[str, Any]]) -> AlikeRequests:
        """Return requests that differ in their arguments; what they share is checked when it is first stored."""
        if self._checked is None or self._checked[0] is not definition:
            self._checked = (definition, Checked(self._request(definition, {}, alike=True)))
        return AlikeRequests(self._checked[1].request, arguments, checked=self._checked[1])

    def _store(self, request: Request, connection: Any = None) -> EnqueuedJob:
        """Store a job; an exclusive one is refused while another instance is alive (document 004)."""
        silence = None if request.concurrency_key is None else self.definition.stale_timeout
        if silence is None:
            return self._home.store_jobs([request], connection)[0]
        with self._home.joining(connection) as joined:
            started = start_exclusively(self._home.world, request, stale_timeout=silence, connection=joined)
        return self._home.waitable([started], connection)[0]

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> EnqueuedJob:
        """Store a job with these arguments without blocking the event loop."""
        request = self.request(*args, **kwargs)
        if self.options.connection is not None:
            return await _on_async_connection(self._store, request, self.options.connection)
        return await asyncio.to_thread(self._store, request)

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[EnqueuedJob]:
        """Store one job for each set of arguments, all in one transaction."""
        definition = self.definition
        arguments = definition.each_arguments(calls)
        requests: Iterable[Request] = (
            AlikeRequests(
                self._request(definition, {}, alike=True), arguments, can_wait=isinstance(calls, list | tuple)
            )
            if self._stores_alike(definition)
            else (self._request(definition, each) for each in arguments)
        )
        return self._home.store_jobs(requests, plain_connection(self.options.connection))


def _policy(retry: Retry | None) -> Retry | None:
    if retry is None or isinstance(retry, Retry):
        return retry
    raise InvalidInput("retry_unreadable", value=repr(retry))


def plain_connection(connection: Any) -> Any:
    """Return the connection of a Session, and any other connection as it is; refuse what is none."""
    if connection is None or hasattr(connection, "exec_driver_sql") or hasattr(connection, "settings_dict"):
        return connection
    if hasattr(connection, "connection") and callable(connection.connection):
        return connection.connection()
    if hasattr(connection, "cursor"):  # Django's, or a driver's: looked at where it is joined
        return connection
    raise ConfigurationError("connection_unusable", given=type(connection).__name__)


async def _on_async_connection(
    store: Callable[[Request, Any], EnqueuedJob], request: Request, connection: Any
) -> EnqueuedJob:
    if not hasattr(connection, "run_sync"):
        return store(request, plain_connection(connection))
    joined: EnqueuedJob = await connection.run_sync(lambda inner: store(request, plain_connection(inner)))
    return joined


class Blueprint:
    """A collection of declarations; an application is one, and can include others."""

    def __init__(self, *, lenient: bool = False) -> None:
        self.lenient = lenient  # whether its cron may use names, L, W, # and nicknames, unless a job says otherwise
        self.definitions = Definitions(self._configure)
        self.problems_noted: list[Problem] = []
        self.running_limits: dict[str, int] = {}  # how many may run at once, by the name of the limit
        self._included_in: Blueprint | None = None

    @property
    def home(self) -> Blueprint:
        """Return the application that these jobs belong to in the end."""
        return self if self._included_in is None else self._included_in.home

    def _configure(self, declared: list[Definition]) -> Iterable[Definition]:
        """Return the definitions as they hold; an application merges them with its file."""
        return declared

    @property
    def world(self) -> World:
        """Store, clock and dice of the application that includes these jobs."""
        return self._application().world

    def store_jobs(self, requests: Iterable[Request], connection: Any = None) -> list[EnqueuedJob]:
        """Store jobs where the application that includes these acts."""
        return self._application().store_jobs(requests, connection)

    def joining(self, connection: Any) -> AbstractContextManager[Any]:
        """Lend the transaction of a caller's connection, where the application acts."""
        return self._application().joining(connection)

    def waitable(self, placed: list[Enqueued], connection: Any = None) -> list[EnqueuedJob]:
        """Return stored jobs as ones that can be waited for where the application acts."""
        return self._application().waitable(placed, connection)

    def _application(self) -> Blueprint:
        if self._included_in is None:
            raise ConfigurationError("blueprint_not_included")
        return self._included_in

    def job(self, name: str, /, **options: Unpack[JobOptions]) -> Declare:
        """Declare a job: a function, which stays a plain function, or a class with ``run(ctx)``, async or not.

        ``cron=…``, ``every=…`` or ``after=[…]`` schedule it; with none of them it is only enqueued or triggered. A
        first parameter named ``ctx``, or annotated :class:`Context`, receives the context. A class gets a fresh
        instance for each run, its constructor's parameters filled by type from what the application provides.
        """  # the options follow, below
        return Declare(self, name, options)

    def verifier(
        self,
        kind: str,
        /,
        *,
        timeout: Span | None = None,
        cost: Mapping[str, int] | None = None,
        budget: str | None = None,
        executor: Runner | None = None,
    ) -> Callable[[Callable[P, R]], Verifier[P, R]]:
        """Declare who looks at governed objects of a *kind*, memory, experience or cognition, when they are due.

        The function, plain or async, takes an :class:`ObjectToVerify` and returns a :class:`Verdict`, its JSON form, or
        :class:`Attend` where an agent has to think about it. An exception, a *timeout* (5 minutes unless given) or an
        unreadable answer is a failed attempt: it is tried again, and in the end the object is stalled while its time
        goes on. *cost* is the most that one look may cost by unit, one call unless given, drawn from the *budget*
        ``verify.memory`` and so on. With ``executor="process"`` it runs in a process of its own.
        """
        from horae.declare.verifiers import Verifier, define_verifier  # a tenth of a worker's memory, for a few

        def declare(function: Callable[P, R]) -> Verifier[P, R]:
            definition = define_verifier(
                self, kind, function, timeout=timeout, cost=cost, budget=budget, executor=executor
            )
            refuse(self._add(definition))
            return Verifier(self, definition, function)

        return declare

    def limit(self, max_running: int, *, group: str | None = None, queue: str | None = None) -> None:
        """Let at most so many jobs run at once over all workers: of a group, of a queue, or, with neither, of all.

        ``jobs.conf`` wins over this, and what an operator sets wins over both.
        """
        name = limit_name(group=group, queue=queue)
        if name in self.running_limits:
            raise DefinitionError("limit_declared_twice", name=name)
        self.running_limits[name] = check_max_running(max_running)

    def include(self, other: Blueprint) -> None:
        """Take over the declarations of another collection; ids must stay unique over all of them."""
        if other._included_in is not None or other is self.home:
            raise DefinitionError("blueprint_included_twice")
        problems = []
        for definition in other.definitions.declared:
            problems += self._add(definition)
        for name in sorted(other.running_limits.keys() & self.running_limits.keys()):
            cause = DefinitionError("limit_declared_twice", name=name)
            problems.append(Problem.of(name, cause, is_whole=True))
        self.running_limits = {**other.running_limits, **self.running_limits}
        self.problems_noted += other.problems_noted
        other._included_in = self
        refuse(problems)

    def _add(self, definition: Definition) -> list[Problem]:
        try:
            self.definitions.add(definition)
        except DefinitionError as problem:
            return [Problem.of(definition.name, problem, is_whole=True)]
        return []


Blueprint.job.__doc__ = f"{inspect.cleandoc(Blueprint.job.__doc__ or '')}\n{options_text()}"
JobHandle.using.__doc__ = f"{JobHandle.using.__doc__}\n{using_text()}"


class Declare:
    """The decorator that ``@app.job(…)`` returns; typed so that arguments are checked where jobs are enqueued."""

    def __init__(self, home: Blueprint, name: str, options: JobOptions) -> None:
        self._home, self._name, self._options = home, name, options

    @overload
    def __call__(self, function: type[Any]) -> JobHandle[..., Any]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]]) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobHandle[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> JobHandle[Any, Any]:
        inherited = {"lenient": True} if self._home.lenient else {}
        definition, problems = define_job(self._name, function, {**inherited, **self._options})
        if not any(problem.severity == "error" for problem in problems):
            problems += self._home._add(definition)
        self._home.problems_noted += [problem for problem in problems if problem.severity == "warning"]
        refuse(problems)
        return JobHandle(self._home, definition)
