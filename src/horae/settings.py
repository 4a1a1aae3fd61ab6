"""Settings from the environment: one frozen value, read once when a command starts.

A plain dataclass and not pydantic-settings: reading a handful of words from the environment is a page of code, and
importing pydantic alone takes longer than ``horae --help`` may. Flags win over the environment, the environment over
the defaults. A misspelled ``HORAE_…`` name is reported, because the default that would apply instead is another
database.
"""

# size: one list of all settings, each with its default and its words

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import Field, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from horae.core.bus import PREFIX as SUBJECT_PREFIX
from horae.core.bus import check_prefix
from horae.core.dataclass import dataclass
from horae.core.retention import check_keep
from horae.core.time.spans import span_from
from horae.core.timeouts import Timeouts
from horae.errors import ConfigurationError, InvalidInput
from horae.words.languages import Language, from_environment

DEFAULT_URL = "sqlite:///.horae/horae.db"
PREFIX = "HORAE_"
# Read elsewhere, or by the tests; listed so that they are not taken for a mistake.
ALSO_KNOWN = (
    "HORAE_CALL", "HORAE_ENDING_FILE", "HORAE_FAULT", "HORAE_RATE_LIMIT_", "HORAE_TEST_",
)  # fmt: skip
SHORTEST_POLL, LONGEST_POLL = timedelta(milliseconds=100), timedelta(seconds=60)
SECRET = ("password", "secret", "token", "cluster_urls")  # words in the name of a text that is not shown
TIMEOUTS = ("connect_timeout", "hot_timeout", "statement_timeout", "silence_timeout", "idle_timeout")
LEVELS = ("debug", "info", "warning", "error")
SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")


def stale_timeout(environment: Mapping[str, str]) -> timedelta:
    """Return how long an exclusive job may show no progress before the next one may start (S4-23)."""
    timeout: timedelta = one_setting(environment, "stale_timeout")
    return timeout


def queues_from(text: str) -> dict[str, int]:
    """Read the queues to serve and the slots of each from ``mail=10,reports``; default slots where none are given."""
    from horae.core.jobs.job import SLOTS  # when asked for: --help must not wait for it
    from horae.core.jobs.machinery import MACHINERY

    queues: dict[str, int] = {}
    for part in (part.strip() for part in text.split(",")):
        name, equals, slots = part.partition("=")
        if not name or (equals and not (slots.isascii() and slots.isdigit() and 1 <= int(slots) <= 10_000)):
            raise InvalidInput("queue_slots_unreadable", text=part)
        if name == MACHINERY:
            raise InvalidInput("queue_served_anyway", queue=MACHINERY)
        queues[name] = int(slots) if equals else SLOTS
    return queues


def _one_of(*words: str) -> Any:
    def read(text: str) -> str:
        if text not in words:
            raise InvalidInput("setting_not_a_choice", text=text, choices=list(words))
        return text

    return read


def _yes(text: str) -> bool:
    if text.lower() not in ("0", "1", "true", "false"):
        raise InvalidInput("setting_not_a_bit", text=text)
    return text.lower() in ("1", "true")


def _whole(least: int, most: int) -> Any:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most):
            raise InvalidInput("setting_outside", text=text, least=least, most=most)
        return int(text)

    return read


def _poll(text: str) -> timedelta:
    chosen = span_from(text)
    if not SHORTEST_POLL <= chosen <= LONGEST_POLL:  # a worker that is silent for minutes is taken for dead
        raise InvalidInput("poll_outside", text=text)
    return chosen


def _minutes(text: str) -> timedelta:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < 10**6:
        raise InvalidInput("minutes_unreadable", text=text)
    return timedelta(minutes=minutes)


def _retention(text: str) -> timedelta:
    return check_keep(span_from(text), text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.replace(",", " ").split() if word)


def _origins(text: str) -> tuple[str, ...]:
    """Read origins as browsers write them: lower case, no path; ``*`` would let every page in."""
    for each in _words(text):
        if not _ORIGIN.fullmatch(each):
            raise InvalidInput("origin_unreadable", text=each)
    return _words(text)


def _servers(text: str) -> tuple[str, ...]:
    """Read addresses of NATS servers."""
    for each in _words(text):
        if not each.startswith(("nats://", "tls://", "ws://", "wss://")):
            raise InvalidInput("nats_server_unreadable", text=each)
    return _words(text)


def _monitors(text: str) -> tuple[str, ...]:
    """Read addresses at which NATS servers tell of themselves."""
    for each in _words(text):
        if not each.startswith(("http://", "https://", "nats://", "tls://")):
            raise InvalidInput("nats_monitor_unreadable", text=each)
    return _words(text)


def _trace_url(text: str) -> str:
    """Read a template of links to traces; nothing but http and https becomes a link."""
    if not text.startswith(("http://", "https://")) or "{trace_id}" not in text:
        raise InvalidInput("trace_url_unreadable", text=text)
    return text


def _switch(text: str) -> bool:
    if text.lower() not in SWITCH:
        raise InvalidInput("switch_unreadable", text=text)
    return SWITCH[text.lower()]


def is_on(environment: Mapping[str, str], name: str) -> bool:
    """Return whether a switch of the environment is on; off unless it is set."""
    return bool(environment.get(name)) and bool(_read(name, _switch, environment[name]))


def _from(
    env: str, what: str, consequence: str, read: Any = str, *, also: str = "", file: bool = False, unset: str = ""
) -> dict[str, Any]:
    """Describe a setting: what it is, what follows from it, and what applies where it is not set and has no value.

    *also*: a second name that is read after ours. *file*: ``…_FILE`` may name a file instead.
    """
    text = f"{what}; {consequence}"
    text += f"; also `{also}`" if also else ""
    text += f"; `{env}_FILE` names a file that holds it" if file else ""
    return {"env": env, "help": text, "read": read, "also": also, "file": file, "unset": unset}


@dataclass(frozen=True)
class Settings:
    """The settings of a process. Every field has an environment variable."""

    database_url: str = field(
        default=DEFAULT_URL,
        metadata=_from(
            "HORAE_DATABASE_URL",
            "the database that keeps everything",
            "processes work together when they name the same one",
            file=True,
        ),
    )
    app: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_APP",
            "the application, `module:app`",
            "commands that need declared jobs load it; one on the command line wins",
            unset="none",
        ),
    )
    queues: Mapping[str, int] | None = field(
        default=None,
        metadata=_from(
            "HORAE_QUEUES",
            "the queues that a worker serves, with their slots: `mail=10,reports=2`",
            "jobs of other queues wait for another worker",
            queues_from,
            unset="all that the application names",
        ),
    )
    lease: timedelta = field(
        default=timedelta(seconds=30),
        metadata=_from(
            "HORAE_LEASE",
            "how long a worker holds a job before it must renew",
            "shorter finds a dead worker sooner and renews more often",
            span_from,
        ),
    )
    grace: timedelta = field(
        default=timedelta(seconds=30),
        metadata=_from(
            "HORAE_GRACE",
            "how long a stopping worker waits for what it runs",
            "what is unfinished then is cancelled and handed on",
            span_from,
        ),
    )
    poll: timedelta = field(
        default=timedelta(seconds=60),
        metadata=_from(
            "HORAE_POLL",
            "how long a worker sleeps at most before it looks at the store",
            "a lost hint delays a job by no more than this",
            _poll,
        ),
    )
    batch: int = field(
        default=500,
        metadata=_from(
            "HORAE_BATCH",
            "how many jobs of a queue a worker claims at a time, at most",
            "smaller shares work more evenly, larger asks the database less often",
            _whole(1, 500),
        ),
    )
    synchronous: Literal["FULL", "NORMAL"] = field(
        default="FULL",
        metadata=_from(
            "HORAE_SYNCHRONOUS",
            "how SQLite writes to disk",
            "`FULL` survives power loss; `NORMAL` is faster and may then lose the last commits",
            _one_of("FULL", "NORMAL"),
        ),
    )
    connect_timeout: timedelta = field(
        default=timedelta(seconds=5),
        metadata=_from(
            "HORAE_CONNECT_TIMEOUT",
            "how long connecting to a database server may take; with several hosts in the URL, how long to search for "
            "the one that can be written to",
            "then the store counts as unavailable",
            span_from,
        ),
    )
    hot_timeout: timedelta = field(
        default=timedelta(seconds=10),
        metadata=_from(
            "HORAE_HOT_TIMEOUT",
            "how long an enqueue, claim, settlement or renewal may take",
            "then it is given up and the store counts as unavailable",
            span_from,
        ),
    )
    statement_timeout: timedelta = field(
        default=timedelta(seconds=30),
        metadata=_from(
            "HORAE_STATEMENT_TIMEOUT",
            "how long any other statement of Horae may take",
            "then it is given up; raise it where history is large",
            span_from,
        ),
    )
    silence_timeout: timedelta = field(
        default=timedelta(seconds=15),
        metadata=_from(
            "HORAE_SILENCE_TIMEOUT",
            "how long a database host may stay silent on the network",
            "then the connection is closed",
            span_from,
        ),
    )
    idle_timeout: timedelta = field(
        default=timedelta(seconds=60),
        metadata=_from(
            "HORAE_IDLE_TIMEOUT",
            "how long nothing may happen in a transaction of `ctx.once`",
            "then it is rolled back, so that its locks end",
            span_from,
        ),
    )
    log_format: str = field(
        default="text",
        metadata=_from(
            "HORAE_LOG_FORMAT",
            "how logs are written",
            "`text` is for people, `json` is one object a line",
            _one_of("text", "json"),
        ),
    )
    log_level: str = field(
        default="info",
        metadata=_from(
            "HORAE_LOG_LEVEL", f"one of {', '.join(LEVELS)}", "less severe records are not written", _one_of(*LEVELS)
        ),
    )
    jobs_conf: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_JOBS_CONF",
            "the file that overrides declared jobs",
            "a file that is named and missing is an error",
            unset="`jobs.conf` beside the application, or in the current folder",
        ),
    )
    environment: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_ENVIRONMENT",
            "the name of this environment, for example `prod`",
            "`jobs.prod.conf` then wins over `jobs.conf`",
            unset="none",
        ),
    )
    release: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_RELEASE",
            "the version of the application that is deployed, for example `2030.1` or a commit",
            "workers and error groups show it; `Horae(release=…)` wins",
            unset="none",
        ),
    )
    lock_prefix: str = field(
        default="horae",
        metadata=_from(
            "HORAE_LOCK_PREFIX",
            "what stands before the keys of locks in Redis: `PREFIX:lock:job:ID`",
            "applications with different prefixes do not exclude each other",
        ),
    )
    kubernetes_image: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_KUBERNETES_IMAGE",
            'the image in which jobs with `executor="kubernetes"` run',
            "it has the application and Horae installed; `KubernetesExecutor(image)` wins",
            unset="none",
        ),
    )
    kubernetes_url: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_KUBERNETES_URL",
            "the API of the Kubernetes cluster, for example what `kubectl proxy` prints",
            "unset, the cluster in which the worker runs is used",
            unset="none",
        ),
    )
    otel: bool = field(
        default=False,
        metadata=_from(
            "HORAE_OTEL", "`1` traces enqueues and runs with OpenTelemetry", "needs the extra `otel`", _switch
        ),
    )
    trace_url: str = field(
        default="",
        metadata=_from(
            "HORAE_TRACE_URL",
            "the page of a trace in your tracing system, such as `https://jaeger.example/trace/{trace_id}`",
            "the console links jobs to it; without it their trace ids are plain text",
            _trace_url,
            unset="none",
        ),
    )
    metrics_open: bool = field(
        default=False,
        metadata=_from(
            "HORAE_METRICS_OPEN",
            "`1` opens `/metrics` to callers without a token",
            "anyone who reaches the port then reads queue and handler names",
            _switch,
        ),
    )
    actor: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_ACTOR",
            "who acts, as the audit names them",
            "a wrong name is recorded as it is",
            unset="`cli/` and the login name",
        ),
    )
    alert_webhook_url: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_ALERT_WEBHOOK_URL",
            "where to post when a job dies or no worker serves a queue",
            "without it nothing is posted; the log still says so",
            unset="none",
        ),
    )
    alert_stalled_after: timedelta = field(
        default=timedelta(minutes=5),
        metadata=_from(
            "HORAE_ALERT_STALLED_AFTER",
            "how long due work waits before its queue counts as stalled",
            "shorter alerts sooner, also for a short burst",
            span_from,
        ),
    )
    heartbeat_url: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_HEARTBEAT_URL",
            "what to call regularly while no expected run is missing, so that an outside monitor notices silence",
            "without it nothing is called; every holder of the URL can pretend that all is well",
            unset="none",
        ),
    )
    heartbeat_every: timedelta = field(
        default=timedelta(minutes=1),
        metadata=_from(
            "HORAE_HEARTBEAT_EVERY",
            "how often it is called, 10 seconds or more",
            "the monitor should wait for a few times as long before it alarms",
            span_from,
        ),
    )
    nats: tuple[str, ...] = field(
        default=(),
        metadata=_from(
            "HORAE_NATS",
            "the NATS servers for events and dispatch, separated by commas",
            "without it this process publishes nothing; `horae bus on` lets the database note events",
            _servers,
            unset="none",
        ),
    )
    nats_stream: str = field(
        default="HORAE",
        metadata=_from(
            "HORAE_NATS_STREAM",
            "the JetStream stream that keeps events; with `_JOBS` and `_CALLS` behind it, those of dispatch; made "
            "where there are none",
            "events go by their subject: another stream that takes it acknowledges them instead",
        ),
    )
    nats_prefix: str = field(
        default=SUBJECT_PREFIX,
        metadata=_from(
            "HORAE_NATS_PREFIX",
            "how the subjects of events begin; with `_work` behind it, those of dispatch",
            "consumers and workers of another prefix hear nothing; each database needs its own",
            check_prefix,
        ),
    )
    cluster_urls: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_CLUSTER_URLS",
            "the URLs of databases of a cluster, as name=url, separated by blanks",
            "without it a database is reached by its address in the map, with the password of the first database where "
            "host, port and user are the same, else by what the driver finds itself",
            file=True,
            unset="none",
        ),
    )
    nats_dispatch: bool = field(
        default=False,
        metadata=_from(
            "HORAE_NATS_DISPATCH",
            "whether this process, which has the database, also takes its turn at handing out jobs to workers on NATS",
            "clients that may publish to the subjects of dispatch then get jobs with their payloads, and end them",
            _switch,
        ),
    )
    nats_replicas: int = field(
        default=1,
        metadata=_from(
            "HORAE_NATS_REPLICAS",
            "how many NATS servers keep each stream that is made here",
            "with 1 a lost server takes its messages along; `3` needs three servers and survives the loss of one",
            _whole(1, 5),
        ),
    )
    nats_monitor: tuple[str, ...] = field(
        default=(),
        metadata=_from(
            "HORAE_NATS_MONITOR",
            "where `horae doctor` asks how NATS writes to disk: monitoring addresses of all servers, "
            "`http://10.0.0.1:8222`, or the system account, `nats://sys:…@10.0.0.1:4222`",
            "without it the doctor does not know",
            _monitors,
            unset="none",
        ),
    )
    nats_flush: Literal["ask", "always", "interval"] = field(
        default="ask",
        metadata=_from(
            "HORAE_NATS_FLUSH",
            "what is known of how NATS writes to disk: `always` vouches for `sync_interval: always`, `interval` "
            "accepts that it is not so, `ask` leaves it to the doctor",
            "with `interval` a power cut may lose messages that were acknowledged, and the doctor no longer objects",
            _one_of("ask", "always", "interval"),
        ),
    )
    server_chores: bool = field(
        default=True,
        metadata=_from(
            "HORAE_SERVER_CHORES",
            "whether the service also fires due schedules, takes back jobs whose lease ran out, serves timeouts, seals "
            "the audit and deletes what is old",
            "with `0` none of that happens unless a `horae worker` with a database runs",
            _switch,
        ),
    )
    server_doctor: bool = field(
        default=True,
        metadata=_from(
            "HORAE_SERVER_DOCTOR",
            "whether the service examines the installation for `GET /admin/doctor`",
            "with `0` only `horae doctor` on its machine does",
            _switch,
        ),
    )
    console: bool = field(
        default=True,
        metadata=_from(
            "HORAE_CONSOLE",
            "whether the service also shows the web console, at `/console`",
            "with `0` there is none, and `/` leads nowhere",
            _switch,
        ),
    )
    instance: str = field(
        default="",
        metadata=_from(
            "HORAE_INSTANCE",
            "the name of this installation, such as `production`",
            "the console shows it on every page",
            unset="none",
        ),
    )
    instance_colour: str = field(
        default="none",
        metadata=_from(
            "HORAE_INSTANCE_COLOUR",
            "the colour of this installation: `red`, `amber`, `green`, `blue`, `violet` or `none`",
            "the console shows it as a stripe on every page, so that production is not taken for a test",
            _one_of("none", "red", "amber", "green", "blue", "violet"),
        ),
    )
    lang: Language = field(
        default="en",
        metadata=_from(
            "HORAE_LANG",
            "the language of sentences on the terminal, `en` or `zh`",
            "`--lang` wins over it; `--json` stays English",
            lambda text: from_environment({"HORAE_LANG": text}),
            unset="Chinese where `LC_ALL` or `LANG` says so, else English",
        ),
    )
    url: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_URL",
            "the service that commands ask",
            "they then open no database; `--db` wins over it",
            unset="none",
        ),
    )
    token: str | None = field(
        default=None,
        repr=False,
        metadata=_from(
            "HORAE_TOKEN",
            "the token that commands show the service",
            "it decides what they may see and do",
            file=True,
            unset="none",
        ),
    )
    host: str = field(
        default="127.0.0.1",
        metadata=_from(
            "HORAE_HOST", "the address the service listens on", "`0.0.0.0` lets other machines in; put TLS before it"
        ),
    )
    port: int = field(
        default=8765,
        metadata=_from(
            "HORAE_PORT", "the port the service listens on", "`0` picks a free one and prints it", _whole(0, 65535)
        ),
    )
    public_url: str = field(
        default="",
        metadata=_from(
            "HORAE_PUBLIC_URL",
            "where the service is reached from outside, behind a proxy",
            "links and the API's description use it",
            unset="the address of each request",
        ),
    )
    trusted_proxies: tuple[str, ...] = field(
        default=(),
        metadata=_from(
            "HORAE_TRUSTED_PROXIES",
            "addresses and networks of proxies",
            "only their `X-Forwarded-For` and `-Proto` are believed",
            _words,
            unset="none",
        ),
    )
    max_body_bytes: int = field(
        default=2 * 1024 * 1024,
        metadata=_from(
            "HORAE_MAX_BODY_BYTES",
            "the longest request body, in bytes",
            "longer ones are refused with 413",
            _whole(1024, 1024**3),
        ),
    )
    calls_per_token: int = field(
        default=300,
        metadata=_from(
            "HORAE_CALLS_PER_TOKEN",
            "requests a second for each token",
            "more are refused with 429; `0`: any number",
            _whole(0, 10**6),
        ),
    )
    calls_per_address: int = field(
        default=600,
        metadata=_from(
            "HORAE_CALLS_PER_ADDRESS",
            "requests a second from each address",
            "more are refused with 429; `0`: any number",
            _whole(0, 10**6),
        ),
    )
    wrong_per_address: int = field(
        default=30,
        metadata=_from(
            "HORAE_WRONG_PER_ADDRESS",
            "wrong tokens a minute from each address",
            "more are refused with 429 unread; `0`: any number",
            _whole(0, 10**6),
        ),
    )
    jwt_secret: str | None = field(
        default=None,
        repr=False,
        metadata=_from(
            "HORAE_JWT_SECRET",
            "the secret of JWTs signed with HS256",
            "tokens signed with it are accepted; without it none are",
            file=True,
            unset="none",
        ),
    )
    secret_key: str | None = field(
        default=None,
        repr=False,
        metadata=_from(
            "HORAE_SECRET_KEY",
            "the key that seals tenants' secrets, 32 bytes in base64",
            "without it no secret can be stored or used; write `new,old` while it is replaced",
            file=True,
            unset="none",
        ),
    )
    jwt_jwks_url: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_JWT_JWKS_URL",
            "where the keys of JWTs are published (RS256, ES256, EdDSA)",
            "tokens signed by one of them are accepted",
            unset="none",
        ),
    )
    jwt_issuer: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_JWT_ISSUER",
            "the `iss` that a JWT must have",
            "required where JWTs are accepted; others are refused",
            unset="none",
        ),
    )
    jwt_audience: str | None = field(
        default=None,
        metadata=_from(
            "HORAE_JWT_AUDIENCE",
            "the `aud` that a JWT must have",
            "required where JWTs are accepted; others are refused",
            unset="none",
        ),
    )
    jwt_scopes: tuple[str, ...] = field(
        default=("tasks",),
        metadata=_from(
            "HORAE_JWT_SCOPES",
            "the scopes that a JWT may have at most, `tasks,read`",
            "a JWT that claims more gets only these",
            _words,
        ),
    )
    cors_origins: tuple[str, ...] = field(
        default=(),
        metadata=_from(
            "HORAE_CORS_ORIGINS",
            "the origins whose pages may call the API from a browser, `https://app.example https://admin.example:8443`",
            "pages of others are refused; the browser's cookies never count",
            _origins,
            unset="none",
        ),
    )
    max_enabled_tasks: int = field(
        default=20,
        metadata=_from(
            "HORAE_TASKS_MAX_ENABLED_PER_USER",
            "how many enabled tasks a user may have",
            "more are refused; `0`: any number",
            _whole(0, 10**6),
            also="SCHEDULED_TASKS_MAX_ENABLED_PER_USER",
        ),
    )
    max_unfinished_jobs: int = field(
        default=100_000,
        metadata=_from(
            "HORAE_JOBS_MAX_UNFINISHED_PER_USER",
            "how many unfinished jobs a user may have enqueued over HTTP",
            "more are refused; `0`: any number",
            _whole(0, 10**9),
        ),
    )
    shortest_interval: timedelta = field(
        default=timedelta(seconds=10),
        metadata=_from(
            "HORAE_TASK_INTERVAL_MIN_SECONDS",
            "the shortest interval of a user's task",
            "shorter ones are refused, and stored ones run at this",
            span_from,
            also="SCHEDULED_TASK_INTERVAL_MIN_SECONDS",
        ),
    )
    stale_timeout: timedelta = field(
        default=timedelta(minutes=10),
        metadata=_from(
            "HORAE_STALE_TIMEOUT_MINUTES",
            "how long an exclusive job may show no progress, in minutes",
            "then the next start closes it",
            _minutes,
            also="SYNC_TASK_STALE_TIMEOUT_MINUTES",
        ),
    )
    keep_runs: timedelta = field(
        default=timedelta(days=30),
        metadata=_from(
            "HORAE_KEEP_RUNS",
            "how long finished jobs and their runs stay on record",
            "older ones are deleted; longer needs more disk",
            _retention,
        ),
    )
    keep_fires: timedelta = field(
        default=timedelta(days=30),
        metadata=_from(
            "HORAE_KEEP_FIRES", "how long the record of each fire stays", "older ones are deleted", _retention
        ),
    )
    keep_keys: timedelta = field(
        default=timedelta(days=7),
        metadata=_from(
            "HORAE_KEEP_KEYS",
            "how long an idempotency key outlives its job",
            "a request repeated later makes a new job",
            _retention,
        ),
    )
    keep_nodes: timedelta = field(
        default=timedelta(days=1),
        metadata=_from(
            "HORAE_KEEP_NODES", "how long a silent worker stays on the list", "then it is forgotten", _retention
        ),
    )
    simulation: bool = field(
        default=False,
        metadata=_from(
            "HORAE_SIMULATION",
            "`1` lets callers say what time it is",
            "for tests only: a caller can then run anything early",
            _yes,
        ),
    )

    @property
    def timeouts(self) -> Timeouts:
        """Return the timeouts of database connections."""
        return Timeouts(*(getattr(self, name) for name in TIMEOUTS))

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings from the environment."""
        return cls(**{each.name: _from_environment(environment, each) for each in fields(cls)})


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A setting that is in force: its value as text without secrets, None where it is not set, and its origin."""

    name: str
    env: str
    value: str | None
    origin: str  # "default", "environment HORAE_…", or "given" by an option or by code
    help: str


def effective_settings(settings: Settings, environment: Mapping[str, str]) -> tuple[EffectiveSetting, ...]:
    """Return every setting in force with where its value comes from; secrets are masked."""
    found = []
    for each in fields(Settings):
        value, origin = getattr(settings, each.name), origin_of(each, environment)
        if origin == "default" and value != each.default:
            origin = "given"
        text = _format_value(each.name, value)
        found.append(EffectiveSetting(each.name, each.metadata["env"], text, origin, each.metadata["help"]))
    return tuple(found)


def origin_of(setting: Field[Any], environment: Mapping[str, str]) -> str:
    """Return where a setting is read from: a variable of the environment, or the default."""
    env = setting.metadata["env"]
    file = f"{env}_FILE" if setting.metadata["file"] else ""
    given = next((name for name in (env, file, setting.metadata["also"]) if name and environment.get(name)), None)
    return "default" if given is None else f"environment {given}"


def is_secret(name: str) -> bool:
    return any(word in name for word in SECRET)


def _format_value(name: str, value: Any) -> str | None:
    from horae.core.jobs.masking import MASK, mask_text  # when asked for: --help must not wait for it

    if value is None or value == "" or value == ():
        return None
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{each}={slots}" for each, slots in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return MASK if isinstance(value, str) and is_secret(name) else mask_text(str(value))


def one_setting(environment: Mapping[str, str], name: str) -> Any:
    """Read one field of the settings alone, for code that must not fail on a mistake in another."""
    return _from_environment(environment, next(each for each in fields(Settings) if each.name == name))


def timeouts(environment: Mapping[str, str]) -> Timeouts:
    """Read the timeouts of database connections alone."""
    return Timeouts(*(one_setting(environment, name) for name in TIMEOUTS))


def read_setting(name: str, text: str, where: str) -> Any:
    """Read a field of the settings from *text* by the rules of the environment; *where* names it in an error."""
    setting = next(each for each in fields(Settings) if each.name == name)
    try:
        return setting.metadata["read"](text)
    except InvalidInput as problem:
        raise InvalidInput("value_invalid", where=where, problem=str(problem)) from None


def _from_environment(environment: Mapping[str, str], setting: Field[Any]) -> Any:
    for name in filter(None, (setting.metadata["env"], setting.metadata["also"])):
        text = _value(environment, name, setting.metadata["file"])
        if text:
            return _read(name, setting.metadata["read"], text)
    return setting.default


def database_url(environment: Mapping[str, str]) -> str:
    """Return the database URL from the environment, or the default."""
    return _value(environment, "HORAE_DATABASE_URL", True) or DEFAULT_URL


def unknown_names(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the unknown names that begin like a setting, each with the nearest known one."""
    known = [each.metadata["env"] for each in fields(Settings)]
    known += [f"{each.metadata['env']}_FILE" for each in fields(Settings) if each.metadata["file"]]
    unknown = [
        name
        for name in environment
        if name.startswith(PREFIX) and name not in known and not name.startswith(ALSO_KNOWN)
    ]
    return {name: next(iter(difflib.get_close_matches(name, known, n=1)), None) for name in sorted(unknown)}


def _value(environment: Mapping[str, str], name: str, file: bool) -> str | None:
    """Return a variable, or, for a secret, the contents of the file that ``…_FILE`` names."""
    path = environment.get(f"{name}_FILE") if file else None
    if environment.get(name) or not path:
        return environment.get(name)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise ConfigurationError(
            "setting_file_unreadable", name=name, path=path, problem=str(problem.strerror)
        ) from None


def _read(name: str, read: Any, text: str) -> Any:
    try:
        return read(text)
    except InvalidInput as problem:
        raise ConfigurationError("setting_invalid", name=name, problem=str(problem)) from None
