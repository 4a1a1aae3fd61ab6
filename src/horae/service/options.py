"""The options of a service: one frozen value, made from the settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from datetime import timedelta
from itertools import count
from typing import Any

from horae.api.here import Doctor, ShowSettings
from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job
from horae.core.metrics import Family
from horae.ports.access import Sealer
from horae.service.guard.limits import Rates

Recogniser = Callable[[str], Caller | None]  # takes the text of a token; None: not of this kind


@dataclass(frozen=True)
class Options:
    """The operator's decisions."""

    version: str = ""
    open_to_all: bool = False  # no authentication: every caller is the operator; only for loopback
    recognisers: tuple[Recogniser, ...] = ()  # asked before the table of tokens, in order
    simulation: bool = False  # whether a caller may say what time it is
    max_body_bytes: int = 2 * 1024 * 1024
    handlers: Callable[[], dict[str, Any]] = field(default=dict)  # what may be run, by name
    http_lease: timedelta = timedelta(seconds=120)
    longest_wait: timedelta = timedelta(seconds=30)
    longest_stream: timedelta = timedelta(minutes=15)  # a reader of server-sent events comes back after it
    max_enabled_tasks: int = 20  # S1-33; 0: no limit
    max_unfinished_jobs: int = 100_000  # of one tenant, enqueued over HTTP; 0: no limit
    shortest_interval: timedelta = timedelta(seconds=10)  # S1-32
    task_handler: str = "dispatch"  # the default handler of a user's task
    task_handlers: tuple[str, ...] = ("dispatch", "webhook", "attend")  # the handlers that a user's task may name
    public_url: str = ""
    hosts: tuple[str, ...] = ()  # the names it answers to; empty: any
    cors_origins: tuple[str, ...] = ()  # origins whose pages may call the API from a browser; never with cookies
    rates: Rates = field(default_factory=Rates)
    names: Callable[[], str] = field(default_factory=lambda: map("r{}".format, count(1)).__next__)  # ids of requests
    open_metrics: bool = False  # whether /metrics answers without a token
    figures: Callable[[], Iterable[Family]] = field(default=tuple)  # metrics of a worker in this process
    monotonic: Callable[[], float] | None = None  # seconds that never jump; None: requests are not timed
    died: Callable[[Job], Awaitable[None]] | None = None  # called with each job that a caller's `fail` ends for good
    doctor: Doctor | None = None  # examines the installation for GET /admin/doctor; None: not offered
    settings: ShowSettings | None = None  # those of this process, for GET /admin/settings; None: not offered
    sealer: Sealer | None = None  # None: no key, so no secrets can be kept
    instance: str = ""  # the name of this installation, for people
    instance_colour: str = "none"
    trace_url: str = ""  # where a trace is shown, with ``{trace_id}`` in it; empty: nowhere
    example: bool = False  # whether `horae up` runs its example: the console dares its reader to kill the worker
    beside: Callable[[], AbstractAsyncContextManager[None]] | None = None  # what goes on while the service runs
