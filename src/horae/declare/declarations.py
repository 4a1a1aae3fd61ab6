"""From ``@app.job(id, cron=…, …)`` to a definition and its schedule; refuses what cannot work.

The options themselves are in ``options``. Every problem of a declaration is found, not only the first: declaring
raises them, ``horae check`` lists them.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from datetime import timedelta
from typing import Any, Literal, cast

from horae.core.dataclass import dataclass
from horae.core.jobs.expectations import job_expect
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import encode
from horae.core.jobs.retry import Retry
from horae.core.schedules.expect import expect_text
from horae.core.schedules.rules import Every
from horae.core.schedules.schedule import MODES, Kind, Schedule, check
from horae.core.time.cron_hash import spread_by_hash
from horae.core.time.spans import span
from horae.declare.definitions import Definition, define, refuse_generator
from horae.declare.options import DEFAULT_LOCK_TTL, KNOWN, TIMING
from horae.errors import DefinitionError, HoraeError, InvalidArguments, InvalidInput
from horae.runtime.worker.context import Context
from horae.runtime.worker.services import wishes_of

SPANS = ("initial_delay", "spread", "grace", "jitter", "lock_ttl")
ONE_OF = ("cron", "every", "after")
OF_ANY_JOB = ("mode", "lock_ttl", "lenient", "expect", *ONE_OF)  # what has a meaning without a schedule, too


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that cannot work, or probably is not meant: where, what, and what to do."""

    where: str
    text: str
    severity: Severity = "error"
    error: HoraeError = field(kw_only=True, compare=False)
    is_whole: bool = field(default=False, kw_only=True, compare=False)  # the error says by itself where it is

    @classmethod
    def of(cls, where: str, error: HoraeError, severity: Severity = "error", *, is_whole: bool = False) -> Problem:
        return cls(where, str(error), severity, error=error, is_whole=is_whole)

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


_collected: ContextVar[list[Problem] | None] = ContextVar("horae_problems", default=None)


@contextmanager
def collecting() -> Iterator[list[Problem]]:
    """Note bad declarations instead of raising them while the block runs, so that a check can list all of them."""
    found: list[Problem] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def refuse(problems: Sequence[Problem]) -> bool:
    """Raise the errors among the problems; return true where a check collects them instead."""
    noted = _collected.get()
    if noted is not None:
        noted += problems
        return any(problem.severity == "error" for problem in problems)
    raise_for(problems)
    return False


def raise_for(problems: Sequence[Problem]) -> None:
    """Raise all errors in one exception; a single one keeps its own class."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if len(errors) == 1 and errors[0].is_whole:
        raise errors[0].error
    if errors:
        reasons = [each.error.reason for each in errors]
        raise DefinitionError("declarations_invalid", problems=[str(each) for each in errors], reasons=reasons)


# -- one declaration ---------------------------------------------------------------------------------------------


def define_job(name: str, target: Callable[..., Any], options: Mapping[str, Any]) -> tuple[Definition, list[Problem]]:
    """Return the definition of one job, and what is wrong with it."""
    problems = [Problem.of(_name_or_repr(name), error) for error in _unknown(options)]
    if not isinstance(name, str) or not name.strip():
        problems.append(Problem.of(_name_or_repr(name), DefinitionError("job_id_blank")))
        return Definition(_name_or_repr(name), target), problems
    problems += _about_timing(name, options)
    built = target if inspect.isclass(target) else None
    policy = {key: value for key, value in options.items() if key in KNOWN and key not in TIMING}
    if any(key in options for key in ONE_OF):
        policy.setdefault("retry", Retry.none())  # C-11: the rhythm is the retry of a scheduled job
    try:
        function = target if built is None else _running(name, built)
        definition = define(name, function, context_type=Context, built=built, **policy)
        schedule = (
            None if any(problem.severity == "error" for problem in problems) else make_schedule(definition, options)
        )
        expect = _expect_of_each(options)
        definition = replace(definition, schedule=schedule, expect=expect, options=dict(options))
    except HoraeError as problem:
        problems.append(Problem.of(name, problem, is_whole=True))
        return Definition(name, target), problems
    return definition, problems


def _expect_of_each(options: Mapping[str, Any]) -> str | None:
    """Return what is expected of each job that is enqueued; None where it is expected of the schedule."""
    return None if any(options.get(key) for key in ONE_OF) else job_expect(options.get("expect"))


def _unknown(options: Mapping[str, Any]) -> Iterator[HoraeError]:
    for name in options:
        if name in KNOWN:
            continue
        close = difflib.get_close_matches(name, KNOWN, n=1)
        if close:
            yield DefinitionError("option_misspelt", option=name, close=close[0])
        else:
            yield DefinitionError("option_unknown", option=name)


def _about_timing(name: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    """Check the timing options (S3-10, S3-11); yield each problem with what to do about it."""
    given = [key for key in ONE_OF if options.get(key)]
    if len(given) > 1:
        yield Problem.of(name, DefinitionError("options_exclusive", options=" and ".join(given)))
    for key in ONE_OF:
        if key in options and not options[key]:
            yield Problem.of(name, DefinitionError("option_empty", option=key, value=repr(options[key])))
    yield from about_mode(name, options, scheduled=bool(given), follows="after" in given)
    if "initial_delay" in options and "every" not in given:
        yield Problem.of(name, DefinitionError("initial_delay_idle"), "warning")
    if given and "concurrency_key" in options:
        yield Problem.of(name, DefinitionError("concurrency_key_idle"), "warning")
    if given and ("debounce" in options or "collect" in options):
        yield Problem.of(name, DefinitionError("gather_idle"), "warning")
    if not given:
        idle = [key for key in options if key in TIMING and key not in OF_ANY_JOB]
        if idle:
            yield Problem.of(name, DefinitionError("options_idle", options=idle), "warning")


def about_mode(name: str, options: Mapping[str, Any], *, scheduled: bool, follows: bool) -> Iterator[Problem]:
    """Check that mode and lock_ttl fit together; yield the problems."""
    mode = options.get("mode", "SINGLE_NODE")
    if mode not in MODES:
        yield Problem.of(name, DefinitionError("mode_unknown", mode=repr(mode)))
    if mode == "ALL_NODES" and (follows or not scheduled):
        yield Problem.of(name, DefinitionError("all_nodes_without_times"))
    if "lock_ttl" not in options:
        return
    try:
        positive = span(options["lock_ttl"]) >= timedelta(milliseconds=1)
    except InvalidInput:
        positive = False
    if not positive:
        yield Problem.of(name, DefinitionError("lock_ttl_not_positive", lock_ttl=repr(options["lock_ttl"])))
    elif mode == "ALL_NODES":
        yield Problem.of(name, DefinitionError("lock_ttl_idle"), "warning")


def make_schedule(definition: Definition, options: Mapping[str, Any]) -> Schedule | None:
    """Make the schedule of a job from its options; return None if they have no times."""
    kind = next((key for key in ONE_OF if options.get(key)), None)
    if kind is None:
        return None
    own = {key: options[key] for key in TIMING if key in options and key not in (*ONE_OF, "arguments")}
    values: dict[str, Any] = {key: _span(key, value) if key in SPANS else value for key, value in own.items()}
    if "expect" in values:
        values["expect"] = expect_text(values["expect"])
    if "catch_up" in values:
        values.setdefault("misfire", "catch_up")
    if options.get("mode") == "ALL_NODES":
        values.pop("lock_ttl", None)
    else:
        values.setdefault("lock_ttl", DEFAULT_LOCK_TTL)
    schedule = Schedule(
        key=definition.name,
        handler=definition.name,
        kind=cast(Kind, kind),
        expression=_expression(kind, definition.name, options),
        after=_leaders(options["after"]) if kind == "after" else (),
        payload=payload_of(definition, options.get("arguments", {})),
        queue=definition.queue,
        priority=definition.priority,
        retry=definition.retry,
        timeout=definition.timeout,
        stale_timeout=definition.stale_timeout,
        budget=definition.budget,
        cost=definition.cost,
        declared=True,
        **values,
    )
    sources = sources_of(schedule, {*own, *(key for key in options if key not in TIMING), kind})
    return check(replace(schedule, sources=sources))


def _expression(kind: str, name: str, options: Mapping[str, Any]) -> str:
    """Return the rule of a declared schedule; an H in its cron follows from its name."""
    text = expression_of(kind, options[kind])
    return spread_by_hash(text, f"{SYSTEM}/{name}", lenient=options.get("lenient") is True) if kind == "cron" else text


def _span(name: str, value: Any) -> timedelta:
    try:
        return span(value)
    except InvalidInput as problem:
        raise DefinitionError("option_invalid", name=name, problem=str(problem)) from None


def _leaders(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(key, str) for key in value):
        raise DefinitionError("after_no_list", value=repr(value))
    return tuple(value)


def expression_of(kind: str, value: Any) -> str:
    """Return the rule as the store keeps it: cron text, or a number of seconds."""
    if kind == "every":
        return f"{Every(value).period.total_seconds():.3f}".rstrip("0").rstrip(".")
    if kind == "cron" and not isinstance(value, str):
        raise DefinitionError("cron_no_text", value=repr(value))
    return value if kind == "cron" else ""


def payload_of(definition: Definition, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of each run; refuse a scheduled job without its required arguments."""
    if not isinstance(arguments, Mapping):
        raise DefinitionError("arguments_not_named", value=repr(arguments))
    try:
        payload = definition.arguments((), dict(arguments))
    except InvalidArguments as problem:
        raise DefinitionError("scheduled_arguments_missing", problem=str(problem)) from None
    encode(payload)  # what cannot be stored is refused now, and not when a worker starts
    return payload


def sources_of(schedule: Schedule, given: set[str]) -> dict[str, str]:
    """Return for each value of a schedule whether code gave it or it is a default."""
    sources = {field: "code" if field in given else "default" for field in TRACED}
    kind = "code" if given & set(ONE_OF) else "default"
    return sources | {"kind": kind, "expression": kind, "handler": "code"}


TRACED = (  # fields whose source is kept
    "enabled", "mode", "lock_ttl", "zone", "group", "initial_delay", "anchor", "day_match", "gap", "fold", "lenient",
    "quiet_hours", "calendar", "calendar_rule", "expect",
    "misfire", "catch_up", "spread", "grace", "overlap", "jitter", "starts_at", "ends_at", "max_fires", "after",
    "queue", "priority", "retry", "timeout", "stale_timeout", "budget", "cost",
)  # fmt: skip


# -- a class with run(ctx) ---------------------------------------------------------------------------------------


def _running(name: str, built: type) -> Callable[..., Any]:
    """Return a function that makes a fresh instance, dependencies filled by type, and runs it (S3-6, S3-14)."""
    run = inspect.getattr_static(built, "run", None)
    if not inspect.isfunction(run):
        raise DefinitionError("run_method_missing", handler=name, function=built.__qualname__)
    refuse_generator(f"{built.__qualname__}.run of {name!r}", run)
    parameters = list(inspect.signature(run).parameters.values())[1:]
    if not parameters:
        raise DefinitionError("run_without_context", handler=name, function=built.__qualname__)
    wishes_of(built, f"The constructor of {built.__qualname__} ({name})")
    if inspect.iscoroutinefunction(run):

        @functools.wraps(built, updated=())
        async def function(ctx: Context, **arguments: Any) -> Any:
            instance = await ctx.scope.build_async(built)
            return await instance.run(ctx, **arguments)

    else:

        @functools.wraps(built, updated=())
        def function(ctx: Context, **arguments: Any) -> Any:
            return ctx.scope.build(built).run(ctx, **arguments)

    context = parameters[0].replace(name="ctx", annotation=Context, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    function.__signature__ = inspect.Signature([context, *parameters[1:]])  # type: ignore[attr-defined]  # mypy does not know it of functions
    del function.__wrapped__
    return function


def _name_or_repr(name: object) -> str:
    return name if isinstance(name, str) and name.strip() else repr(name)
