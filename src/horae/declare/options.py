"""The options of ``@app.job``: name, type, section, default and consequence, each stated once.

``JobOptions`` is what type checkers know; the docstring of ``job``, the reference page and what ``jobs.conf`` accepts
are generated from it. Every option is on every door by the same name and with the same default, or says why not.
"""
# size: one declaration for each option, all in one place

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypedDict, get_type_hints

from horae.core.dataclass import dataclass
from horae.core.jobs.gathered_jobs import Collect, Debounce
from horae.core.jobs.job import Priority
from horae.core.jobs.retry import Retry
from horae.core.schedules.schedule import Misfire, Mode, Overlap
from horae.core.time.spans import Span
from horae.declare.definitions import Decide, Runner
from horae.ports.executors import RemoteExecutor
from horae.ports.locks import Limiter

Section = Literal["when", "missed", "where", "limits"]
SECTIONS: dict[Section, str] = {
    "when": "When it runs",
    "missed": "What happens to missed, overlapping and failed runs",
    "where": "Where it runs",
    "limits": "What limits it",
}
DEFAULT_LOCK_TTL = timedelta(seconds=30)
GATHERED = "it is about calls, and a schedule makes none: `POST /jobs`, `horae job enqueue` and `using` take it"
OF_HANDLER = "it belongs to the declaration of the handler, which all its schedules share"


@dataclass(frozen=True)
class Option:
    """The description of an option; *default* is a value, or *default_text* describes one that is computed."""

    section: Section
    default: Any
    text: str
    default_text: str = ""
    not_in_file: str = ""  # why jobs.conf cannot say it
    not_over_http: str = ""  # why POST /schedules does not take it
    not_on_command_line: str = ""  # why `horae schedule create` does not

    @property
    def default_words(self) -> str:
        """Return the default in words, or as Python writes it; spans in seconds."""
        if self.default_text:
            return self.default_text
        if isinstance(self.default, timedelta):
            return f"{self.default.total_seconds():g} s"
        return "none" if self.default is None else repr(self.default)


class TimingOptions(TypedDict, total=False):
    """Options of the schedule. Without ``cron``, ``every`` or ``after`` there is none."""

    cron: Annotated[str, Option("when", None, "Run by this cron expression of five fields.")]
    every: Annotated[Span, Option("when", None, "Run at this interval; a number means seconds.")]
    after: Annotated[
        Sequence[str], Option("when", None, "Run when the jobs of these schedules have succeeded; give their ids.")
    ]
    initial_delay: Annotated[
        Span, Option("when", timedelta(0), "Wait so long before the very first run of an interval; only with `every`.")
    ]
    anchor: Annotated[
        Literal["start", "finish"],
        Option(
            "when",
            "start",
            'Count an interval from the planned start, on a grid; "finish" rests for the interval after each run.',
        ),
    ]
    zone: Annotated[
        str, Option("when", "UTC", "Read `cron` in this IANA time zone; an unknown one is refused at declaration.")
    ]
    day_match: Annotated[
        Literal["and", "or"],
        Option("when", "and", 'Fire where day of month and weekday both match; "or" fires where one of them does.'),
    ]
    gap: Annotated[
        Literal["after", "skip"],
        Option(
            "when", "after", 'Fire a local time that a clock change skips right after the gap; "skip" leaves it out.'
        ),
    ]
    fold: Annotated[
        Literal["first", "both"],
        Option(
            "when", "first", 'Fire a local time that a clock change repeats the first time only; "both" fires twice.'
        ),
    ]
    lenient: Annotated[
        bool,
        Option(
            "when",
            False,
            "Accept names, 7 for Sunday and other habits in `cron`; refused unless the application says lenient=True.",
        ),
    ]
    quiet_hours: Annotated[
        str,
        Option(
            "when",
            None,
            'Fire nothing in these hours of `zone`, "22:00-07:00"; all that falls there fires once when they end.',
        ),
    ]
    calendar: Annotated[str, Option("when", None, "Heed the days of this calendar; it must exist in the store.")]
    calendar_rule: Annotated[
        Literal["exclude", "include", "move"],
        Option(
            "when",
            "exclude",
            'Leave the days of `calendar` out; "include" fires only on them, "move" fires on the next day that is not '
            "one.",
        ),
    ]
    expect: Annotated[
        str,
        Option(
            "missed",
            None,
            'Expect a success "within 10m" of being due, "by 06:00" of `zone`, or "every 1d"; a run that is missing is '
            "recorded and alerted. Without a schedule it is expected of each job that is enqueued.",
            "nothing is expected",
        ),
    ]
    misfire: Annotated[
        Misfire,
        Option(
            "missed",
            "fire_once",
            'Run once for all fires missed without a worker; "skip" runs none that is late, "catch_up" the last few.',
        ),
    ]
    catch_up: Annotated[
        int, Option("missed", 1, 'Run at most so many missed fires, 1 to 1000; giving it means misfire="catch_up".')
    ]
    spread: Annotated[
        Span, Option("missed", timedelta(minutes=1), "Distribute the fires that are caught up over this time.")
    ]
    grace: Annotated[
        Span,
        Option(
            "missed",
            timedelta(minutes=1),
            'With misfire="skip" still run the last missed fire if it is no later than this.',
        ),
    ]
    overlap: Annotated[
        Overlap,
        Option(
            "missed",
            "skip",
            'Skip a fire while an earlier job of the schedule is unfinished, and record that; "queue_one" lets one '
            'wait, "allow" runs both.',
        ),
    ]
    jitter: Annotated[
        Span,
        Option(
            "when", timedelta(0), "Delay each fire by a random part of this time, so that many do not start at once."
        ),
    ]
    starts_at: Annotated[datetime, Option("when", None, "Do not fire before this instant; it needs an offset.")]
    ends_at: Annotated[datetime, Option("when", None, "Do not fire after this instant; it needs an offset.")]
    max_fires: Annotated[int, Option("when", None, "End the schedule after so many fires.")]
    mode: Annotated[
        Mode,
        Option(
            "where",
            "SINGLE_NODE",
            'Run each fire on one node, under a lock; "ALL_NODES" runs it on every node, without one.',
        ),
    ]
    lock_ttl: Annotated[
        Span,
        Option(
            "where",
            DEFAULT_LOCK_TTL,
            'Let the lock of a run end so long after its last renewal; ignored with mode="ALL_NODES".',
            "30 s; over HTTP none, and then no lock is taken",
        ),
    ]
    enabled: Annotated[bool, Option("when", True, "Fire at all; while False a trigger runs it all the same.")]
    group: Annotated[str, Option("where", None, "Pause, resume and limit it together with others of this name.")]
    arguments: Annotated[
        Mapping[str, Any],
        Option("when", {}, "Call the handler with these at each fire; required where it has parameters."),
    ]


class JobOptions(TimingOptions, total=False):
    """All that ``@app.job`` takes beside the id."""

    queue: Annotated[
        str, Option("where", "default", "Store its jobs in this queue; only workers that serve it run them.")
    ]
    priority: Annotated[
        Priority, Option("where", "medium", "Run it before others that are due at the same time: high, medium, low.")
    ]
    retry: Annotated[
        Retry,
        Option(
            "missed",
            None,
            "Try again after a failure by this policy; when its attempts are used up the job is dead.",
            "`Retry.none()` with a schedule, else `Retry.fixed(300, attempts=3)`",
        ),
    ]
    timeout: Annotated[Span, Option("limits", None, "Stop an attempt that takes longer, as failed.", "no limit")]
    concurrency_key: Annotated[
        str | Callable[..., str],
        Option(
            "limits",
            None,
            'Run enqueued jobs of the same key one at a time; a template such as "customer:{customer_id}", or a '
            "function of the arguments.",
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]
    concurrency_limit: Annotated[
        int,
        Option(
            "limits",
            1,
            "Run so many jobs of the same concurrency key at a time.",
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]
    debounce: Annotated[
        Debounce | Span,
        Option(
            "limits",
            None,
            "Run only the last of many calls, when none has come for this long; `Debounce(wait, max_wait=…, key=…)` "
            "says how long at most, and by which arguments calls are told apart.",
            not_in_file=GATHERED,
            not_over_http=GATHERED,
            not_on_command_line=GATHERED,
        ),
    ]
    collect: Annotated[
        Collect,
        Option(
            "limits",
            None,
            'Run many calls as one job, their lists joined: `Collect(n=100, within="5s", key=…)`.',
            not_in_file=GATHERED,
            not_over_http=GATHERED,
            not_on_command_line=GATHERED,
        ),
    ]
    executor: Annotated[
        Runner | RemoteExecutor,
        Option(
            "where",
            None,
            'Run it on the event loop ("async"), in a thread or in a process of its own, which can be killed; or '
            'outside the worker: "ray", "dask", "kubernetes", or an executor of your own.',
            '"async" for async functions, else "thread"',
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]
    decide: Annotated[
        Decide,
        Option(
            "missed",
            None,
            "Ask this function what follows a failure; needs `retry=Retry.external(…)`.",
            not_in_file="it is a function; declare it in code",
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]
    rate_limit: Annotated[
        Limiter,
        Option(
            "limits",
            None,
            "Put an attempt off while this limiter has no room; that is not a failure.",
            not_in_file="it is an object that code shares between jobs; limit how many run at once by [jobs.limits]",
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]
    stale_timeout: Annotated[
        Span,
        Option(
            "limits",
            None,
            "Close a running instance that showed no progress for this long when another wants to start; while it is "
            "alive, another is refused.",
            "none; `HORAE_STALE_TIMEOUT_MINUTES` for an exclusive job",
        ),
    ]
    budget: Annotated[
        str,
        Option(
            "limits",
            None,
            'Draw on the budgets of this name, "llm" or, with an agent, "llm/researcher"; an attempt starts only while '
            "they have room for its cost.",
            "none, and nothing is counted",
        ),
    ]
    cost: Annotated[
        Mapping[str, int],
        Option(
            "limits",
            None,
            "Reserve so much before each attempt, as an upper bound: calls, tokens, micros of money; only with "
            "`budget`.",
            "one call",
        ),
    ]
    exclusive: Annotated[
        bool,
        Option(
            "limits",
            False,
            "Run one instance at a time, and refuse to start another instead of letting it wait.",
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]
    tenants: Annotated[
        bool,
        Option(
            "where",
            False,
            "Let tenants schedule and enqueue it over HTTP; else only the house may.",
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]
    check_types: Annotated[
        bool,
        Option(
            "where",
            True,
            "Refuse arguments at the enqueue that do not fit the annotations; False takes them as they are.",
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]
    sensitive: Annotated[
        Sequence[str],
        Option(
            "where",
            (),
            "Mask arguments, results and progress of these names for readers; the handler gets the real values. Names "
            "such as `password`, `token`, `secret` and `authorization` are masked without it.",
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]
    logs: Annotated[
        bool,
        Option(
            "where",
            True,
            "Keep what the handler logs through `ctx.logger` with each attempt: the last 200 lines, up to 64 KiB, with "
            "secrets masked. False keeps nothing.",
            not_over_http=OF_HANDLER,
            not_on_command_line=OF_HANDLER,
        ),
    ]


TIMING = tuple(TimingOptions.__annotations__)  # get_type_hints would evaluate each of them, 25 ms of every start
KNOWN = tuple(JobOptions.__annotations__)


def options() -> Iterator[tuple[str, Option]]:
    """Return every option with its name, section by section."""
    hints = get_type_hints(JobOptions, include_extras=True)
    found = {name: hint.__metadata__[0] for name, hint in hints.items()}
    for section in SECTIONS:
        yield from ((name, option) for name, option in found.items() if option.section == section)


def not_in_file() -> dict[str, str]:
    """Return the options that ``jobs.conf`` cannot say, each with the reason."""
    return {name: option.not_in_file for name, option in options() if option.not_in_file}


def options_text() -> str:
    """Return the options as a docstring lists them."""
    lines: list[str] = []
    section = None
    for name, option in options():
        if option.section != section:
            section = option.section
            lines += ["", f"{SECTIONS[section]}:", ""]
        lines.append(
            f"* ``{name}``: {option.text.replace('`', '``')} Default: {option.default_words.replace('`', '``')}."
        )
    return "\n".join(lines)
