"""Definitions of jobs: a function, its name and the policy of its jobs.

The function itself stays a plain function. A definition knows its signature, so that arguments are checked when a
job is enqueued and not when it fails at three in the morning.
"""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, get_type_hints

from horae.core.dataclass import dataclass
from horae.core.governance.budgets import job_budget
from horae.core.jobs.gathered_jobs import Collect, Debounce
from horae.core.jobs.job import PRIORITIES, Job, Priority
from horae.core.jobs.machinery import queue_name
from horae.core.jobs.payloads import name as checked_name
from horae.core.jobs.retry import DEFAULT_RETRY, Retry, time_limit
from horae.core.scheduled_tasks.task import Terms
from horae.core.schedules.schedule import Schedule
from horae.core.time.spans import Span
from horae.declare.argument_types import Check, checks_of, refuse_misfits
from horae.errors import DefinitionError, InvalidArguments, InvalidInput, NotFound
from horae.executors.names import executor_of
from horae.ports.executors import RemoteExecutor
from horae.ports.locks import Limiter
from horae.settings import one_setting
from horae.settings import stale_timeout as preset_stale_timeout

Runner = Literal["async", "thread", "process", "ray", "dask", "kubernetes"]
LOCAL = ("async", "thread", "process")  # on the worker's own machine
Decide = Callable[[Job, str], timedelta | Awaitable[timedelta | None] | None]


@dataclass(frozen=True)
class Definition:
    """A job definition: a function and the policy of its jobs."""

    name: str
    function: Callable[..., Any]
    queue: str = "default"
    priority: Priority = "medium"
    retry: Retry = DEFAULT_RETRY
    timeout: timedelta | None = None
    concurrency_key: str | Callable[..., str] | None = None
    concurrency_limit: int = 1
    executor: str = "thread"  # on this machine, or the name of *remote*
    remote: RemoteExecutor | None = field(default=None, compare=False)  # where it runs instead of on this machine
    decide: Decide | None = None
    rate_limit: Limiter | None = None
    stale_timeout: timedelta | None = None
    budget: str | None = None
    cost: Mapping[str, int] | None = None
    takes_context: bool = False
    signature: inspect.Signature = field(default_factory=inspect.Signature)
    schedule: Schedule | None = None  # when it runs, as its code says; the file and the store may say otherwise
    tenants: bool = False  # whether tenants' jobs may run it; the store keeps it, and decides
    check_types: bool = True  # whether arguments must fit the annotations
    sensitive: tuple[str, ...] = ()  # names of arguments whose values readers do not see
    logs: bool = True  # whether what it logs is kept with its attempts
    debounce: Debounce | None = None  # its key is a template of the arguments
    collect: Collect | None = None
    expect: str | None = None  # of each job that is enqueued; where it has a schedule, that has it instead
    options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # as its code gives them
    built: type | None = None  # the class of which every run gets a fresh instance; None for a plain function

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the call as named arguments; refuse one that does not fit, and show the signature."""
        named = self._named(args, kwargs)
        if self._checks:
            refuse_misfits(self.name, self._checks, named, self.sensitive)
        return named

    def each_arguments(self, calls: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the named arguments of many calls, as :meth:`arguments` returns those of one."""
        name, required, names, checks = self.name, self._required, self._names, self._checks
        for call in calls:
            named = dict(call)
            if not required <= named.keys() <= names:
                named = self._named((), named)
            if checks:
                refuse_misfits(name, checks, named, self.sensitive)
            yield named

    @cached_property
    def _checks(self) -> Mapping[str, Check]:
        target = self.function if self.built is None else inspect.getattr_static(self.built, "run")
        return checks_of(target, self.signature) if self.check_types else {}

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not args and self._required <= kwargs.keys() <= self._names:
            return kwargs
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as problem:
            raise InvalidArguments(
                "arguments_unfit", handler=self.name, problem=str(problem), advice=self._advice(kwargs).strip()
            ) from None
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named |= value
            else:
                named[name] = value
        return named

    @cached_property
    def _names(self) -> Set[str]:
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return {each.name for each in self.signature.parameters.values() if each.kind in kinds}

    @cached_property
    def _required(self) -> Set[str]:
        parameters = self.signature.parameters
        return {name for name in self._names if parameters[name].default is inspect.Parameter.empty}

    def _advice(self, kwargs: dict[str, Any]) -> str:
        names = list(self.signature.parameters)
        for given in kwargs:
            close = difflib.get_close_matches(given, names, n=1)
            if given not in names and close:
                return f" Did you mean {close[0]}? It takes {self.name}{self.signature}."
        return f" It takes {self.name}{self.signature}."

    def key_for(self, arguments: dict[str, Any]) -> str | None:
        """Return the concurrency key of one job, from a template such as "customer:{customer_id}" or a function."""
        if self.concurrency_key is None:
            return None
        if callable(self.concurrency_key):
            return str(self.concurrency_key(**arguments))
        try:
            return self.concurrency_key.format(**arguments)
        except (KeyError, IndexError) as problem:
            raise InvalidArguments(
                "concurrency_argument_missing", handler=self.name, key=self.concurrency_key, argument=str(problem)
            ) from None

    def gather_for(self, arguments: dict[str, Any]) -> tuple[Debounce | None, Collect | None]:
        """Return how one call joins others, its key filled from the arguments."""
        how = self.debounce or self.collect
        if how is None or how.key is None:
            return self.debounce, self.collect
        try:
            filled = replace(how, key=how.key.format(**arguments))
        except (KeyError, IndexError) as problem:
            raise InvalidArguments(
                "gather_key_missing", handler=self.name, key=how.key, argument=str(problem)
            ) from None
        return (filled, None) if isinstance(filled, Debounce) else (None, filled)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


def checked_gather(debounce: Debounce | Span | None, collect: Collect | None) -> tuple[Debounce | None, Collect | None]:
    """Return how calls join each other; a span alone is that of a debounce."""
    if collect is not None and not isinstance(collect, Collect):
        raise InvalidInput("type_wrong", name="collect", value=repr(collect), expected="Collect(n=…, within=…)")
    if debounce is not None and collect is not None:
        raise InvalidInput("debounce_and_collect")
    return Debounce(debounce) if isinstance(debounce, timedelta | int | float | str) else debounce, collect


def define(
    name: str,
    function: Callable[..., Any],
    *,
    context_type: type,
    queue: str = "default",
    priority: Priority = "medium",
    retry: Retry | None = None,
    timeout: Span | None = None,
    concurrency_key: str | Callable[..., str] | None = None,
    concurrency_limit: int = 1,
    executor: Runner | RemoteExecutor | None = None,
    decide: Decide | None = None,
    rate_limit: Limiter | None = None,
    stale_timeout: Span | None = None,
    budget: str | None = None,
    cost: Mapping[str, int] | None = None,
    exclusive: bool = False,
    tenants: bool = False,
    sensitive: Sequence[str] = (),
    logs: bool = True,
    check_types: bool = True,
    debounce: Debounce | Span | None = None,
    collect: Collect | None = None,
    built: type | None = None,
) -> Definition:
    """Check a declaration and make it a definition; refuse what cannot work.

    An *exclusive* job runs once at a time for its concurrency key, which is its name unless given (document 004): to
    start another is refused, unless the running one has reported no progress for *stale_timeout*.
    """
    if not callable(function):
        raise DefinitionError("job_not_callable", value=repr(function))
    refuse_generator(name, function)
    if priority not in PRIORITIES:
        raise DefinitionError("job_priority_unknown", handler=name, priority=str(priority), choices=list(PRIORITIES))
    if concurrency_limit < 1:
        raise DefinitionError("job_limit_too_low", handler=name, value=concurrency_limit)
    policy = DEFAULT_RETRY if retry is None else retry
    if not isinstance(policy, Retry):
        raise DefinitionError("job_retry_unreadable", handler=name, value=repr(retry))
    if (policy.kind == "external") != (decide is not None):
        raise DefinitionError("external_without_decide", handler=name)
    try:
        limit, silence = time_limit(timeout), time_limit(stale_timeout, "stale_timeout")
        job_budget(budget, cost)
        debounced, collecting = checked_gather(debounce, collect)
    except InvalidInput as problem:
        raise DefinitionError("option_invalid", name=name, problem=str(problem)) from None
    if not isinstance(tenants, bool):
        raise DefinitionError("tenants_not_boolean", handler=name, value=repr(tenants))
    if not isinstance(check_types, bool):
        raise DefinitionError("check_types_not_boolean", handler=name, value=repr(check_types))
    if isinstance(sensitive, str) or not all(isinstance(each, str) and each for each in sensitive):
        raise DefinitionError("sensitive_not_names", handler=name, value=repr(sensitive))
    if (debounced is not None or collecting is not None) and (exclusive or stale_timeout is not None):
        raise DefinitionError("gather_exclusive", handler=name)
    if exclusive:
        if concurrency_limit != 1:
            raise DefinitionError("exclusive_with_limit", handler=name)
        concurrency_key = name if concurrency_key is None else concurrency_key
        silence = preset_stale_timeout(os.environ) if silence is None else silence
    signature, takes_context = _signature(name, function, context_type)
    runner, remote = _runner(name, function, executor)
    return Definition(
        name=checked_name(name, "job", 200),
        function=function,
        queue=queue_name(queue),
        priority=priority,
        retry=policy,
        timeout=limit,
        concurrency_key=concurrency_key,
        concurrency_limit=concurrency_limit,
        executor=runner,
        remote=remote,
        decide=decide,
        rate_limit=rate_limit,
        stale_timeout=silence,
        budget=budget,
        cost=cost,
        tenants=tenants,
        sensitive=tuple(dict.fromkeys(sensitive)),
        logs=bool(logs),
        check_types=check_types,
        debounce=debounced,
        collect=collecting,
        takes_context=takes_context,
        signature=signature,
        built=built,
    )


def refuse_generator(name: str, function: Callable[..., Any]) -> None:
    """Refuse a function with ``yield``: calling it makes a generator and runs none of its code."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError("job_is_generator", handler=name)


def _may_be_async(function: Callable[..., Any]) -> bool:
    """Return whether a function is async, or a plain decorator around one that is."""
    try:
        return inspect.iscoroutinefunction(inspect.unwrap(function))
    except ValueError:  # wrapped around itself
        return False


def _runner(
    name: str, function: Callable[..., Any], asked: Runner | RemoteExecutor | None
) -> tuple[str, RemoteExecutor | None]:
    """Return what runs a function: the name of an executor, and the executor itself if it is elsewhere."""
    is_async = inspect.iscoroutinefunction(function)
    if asked is None:
        return "async" if is_async else "thread", None
    if not isinstance(asked, str) or asked not in LOCAL:
        remote = executor_of(asked)
        if remote is None:
            raise DefinitionError("executor_unknown", handler=name, executor=str(asked))
        return remote.name, remote
    if asked == "async" and not is_async and not _may_be_async(function):
        raise DefinitionError("executor_needs_async", handler=name)
    if asked == "thread" and is_async:
        raise DefinitionError("executor_refuses_async", handler=name)
    return asked, None


def _signature(name: str, function: Callable[..., Any], context_type: type) -> tuple[inspect.Signature, bool]:
    """Return the signature without the context, and whether the function takes the context first."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise DefinitionError("parameter_not_by_name", handler=name, parameter=str(parameter))
    if parameters and _is_context(function, parameters[0], context_type):
        return signature.replace(parameters=parameters[1:]), True
    return signature, False


def _is_context(function: Callable[..., Any], parameter: inspect.Parameter, context_type: type) -> bool:
    if parameter.name == "ctx":
        return True
    try:
        hint = get_type_hints(function).get(parameter.name)
    except (NameError, TypeError):  # a name that exists only for the type checker
        return False
    return isinstance(hint, type) and issubclass(hint, context_type)


class Definitions:
    """All definitions of one application, by name.

    *configure* merges them with a file. It is called when they are first read, and again when the file may have
    changed, so that nothing is read at import time.
    """

    def __init__(self, configure: Callable[[list[Definition]], Iterable[Definition]]) -> None:
        self._declared: dict[str, Definition] = {}
        self._configure = configure
        self._configured: dict[str, Definition] | None = None

    @property
    def declared(self) -> list[Definition]:
        """The definitions as code gives them."""
        return list(self._declared.values())

    @property
    def _by_name(self) -> dict[str, Definition]:
        if self._configured is None:
            self._configured = {each.name: each for each in self._configure(self.declared)}
        return self._configured

    def read_again(self) -> None:
        """Merge them with the file again when they are next read."""
        self._configured = None

    def add(self, definition: Definition) -> None:
        if definition.name in self._declared:
            raise DefinitionError("job_declared_twice", handler=definition.name)
        self._declared[definition.name] = definition
        self.read_again()

    def find(self, name: str) -> Definition | None:
        return (self._configured or self._by_name).get(name)

    def get(self, name: str) -> Definition:
        found = self._by_name.get(name)
        if found is None:
            close = difflib.get_close_matches(name, self._declared, n=1)
            if close:
                raise NotFound("handler_misspelt", name=name, close=close[0])
            raise NotFound("handler_not_declared", name=name)
        return found

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._by_name.values())

    def task_terms(self, usual: Terms) -> Terms:
        """Return what holds for users' tasks made in this process: the settings, and the queues declared here."""
        return replace(
            usual,
            shortest=one_setting(os.environ, "shortest_interval"),
            max_enabled=one_setting(os.environ, "max_enabled_tasks"),
            queues={each.name: each.queue for each in self},
        )
