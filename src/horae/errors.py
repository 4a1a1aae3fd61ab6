"""The whole family of errors.

::

    HoraeError
    ├── InvalidInput            a value that cannot be accepted            (also a ValueError)
    │   ├── InvalidArguments    arguments that do not fit the function
    │   ├── InvalidPayload      a payload that is not plain, bounded JSON
    │   ├── ContentTooLarge     content that is longer than an object may hold
    │   ├── InvalidName         a name, key or tag outside the allowed characters
    │   ├── PastDue             a due time that has already passed, where that is refused
    │   ├── InvalidCron         cron text that cannot be read; knows field and position
    │   │   └── NeverFires      cron text that names no day of any year
    │   ├── InvalidFilter       a filter that cannot be read; its facts know the position
    │   ├── InvalidInterval     a period or delay that cannot be kept
    │   │   └── IntervalRefused the interval of a user's task is no number, or not allowed
    │   ├── UnknownZone         a time zone that the zone database does not know
    │   └── AddressRefused      an address that outgoing calls must not go to
    ├── Unauthorized            no token, or none that is valid
    ├── Forbidden               the caller is known, and not allowed to do that
    ├── TooManyRequests         too many requests; says when to repeat
    ├── KeysUnavailable         the keys that verify JWTs cannot be fetched
    ├── NotFound                no such job, queue, handler …
    ├── NotAllowed              not possible in the current state
    │   ├── IllegalTransition   an event that a governed object does not have in its state
    │   └── ReservedQueue       a queue or a job of Horae's own, which callers must not change
    ├── Conflict                the request contradicts what is stored
    │   ├── KeyConflict         an idempotency key used again for another request
    │   ├── VersionConflict     changed by another caller since it was read
    │   ├── QuotaExceeded       the tenant's quota is used up
    │   ├── TokenNeeded         the job's end needs the token of the pull
    │   ├── LockNotAcquired     another process holds the lock
    │   └── SecretsLocked       secrets cannot be sealed or opened with the keys at hand
    ├── WaitTimeout             a wait has timed out                       (also a TimeoutError)
    ├── LeaseLost               the job has been handed on; this result no longer counts
    ├── LaneLost                another driver has the lane; this step no longer counts
    ├── DefinitionError         a declaration that cannot work              (also a ValueError)
    ├── ConfigurationError      a setting that cannot work
    │   ├── MissingExtra        an extra of the package is not installed    (also an ImportError)
    │   └── NeedsDatabase       this process reaches a service only, and that takes a database
    ├── ServiceUnavailable      the service cannot be reached, or what answers there is not one
    │   └── BusUnavailable      the message bus cannot be reached, or acknowledges nothing
    ├── ExecutorUnavailable     a cluster on which handlers run does not answer
    ├── StoreError              the database
    │   ├── StoreUnavailable    cannot be reached, or the outcome of a commit is unknown
    │   ├── StoreBusy           is locked by another transaction
    │   ├── StoreFull           has no room left
    │   ├── StaleMap            belongs to a cluster, and keeps this shard no longer
    │   ├── PartlyStored        of a call over several shards some have stored their part, others have not
    │   ├── SchemaMissing       has no Horae tables yet, or old ones
    │   └── SchemaTooNew        was migrated by a newer Horae
    ├── SignatureRefused        a message without a valid, recent signature
    └── HandlerFailed           how a failed attempt is reported
        ├── JobFailed           a job whose result was asked for did not succeed
        ├── CallFailed          an outgoing call without an answer
        ├── DeliveryFailed      a webhook that its target could not take now
        ├── DeliveryRefused     a webhook that cannot be delivered, now or later
        └── DispatchFailed      the orchestrator reported no success

Every class has a stable ``code``. An error is raised with a reason and facts::

    raise NotFound("job_unknown", id=job_id)

The class is the family: it decides the HTTP status and the exit code. The reason is more precise, and as stable as the
code. The sentence stands once, in the tables of :mod:`horae.words`, and is made when it is asked for. Any other text is
taken for the sentence itself: ``HandlerFailed("The printer is on fire.")``.

``Snooze`` and ``Cancel`` are not errors but ways out of a handler; they live in ``horae.core.jobs.outcomes``.
"""

# size: the whole family in one place, with its tree

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from horae.words.languages import Language

Fact: TypeAlias = str | int | float | Sequence[str] | Sequence[int] | None  # what JSON can carry; never a secret


class HoraeError(Exception):
    """Whatever Horae raises on purpose."""

    code = "horae_error"
    facts: Mapping[str, Fact] = MappingProxyType({})  # of one error: what its sentence is about, for programs
    _sentence: str | None = None  # as the service sent it

    def __init__(self, *args: object, **facts: Fact) -> None:
        super().__init__(*args)
        if facts:
            self.facts = facts

    @cached_property
    def reason(self) -> str:
        """What is wrong, as a word for programs; empty where the error was raised with a sentence."""
        text = super().__str__()
        return "" if self._words(text) is None else text

    def __str__(self) -> str:
        if self._sentence is not None:
            return self._sentence
        text = super().__str__()
        words = self._words(text)
        return text if words is None else words

    def in_words(self, language: Language) -> str:
        """Return the sentence in a language; as ``str`` does where the error was raised with a sentence.

        An error that quotes the one it came from quotes it in the same language.
        """
        from horae.words.sentences import sentence

        if language == "en" or not self.reason:
            return str(self)
        facts, cause = self.facts, self.__cause__
        if isinstance(cause, HoraeError):
            quoted = str(cause)
            facts = {name: cause.in_words(language) if each == quoted else each for name, each in facts.items()}
        words = sentence(self.reason, facts, language)
        return str(self) if words is None else words

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.facts.items())]
        return f"{type(self).__name__}({', '.join(given)})"

    def as_json(self) -> dict[str, Any]:
        """Return reason and facts for programs elsewhere; nothing where the error was raised with a sentence."""
        if not self.reason:
            return {}
        return {"reason": self.reason, "facts": {name: _plain(value) for name, value in self.facts.items()}}

    def _words(self, reason: str) -> str | None:
        from horae.words.sentences import sentence  # here, because most errors are never read

        return sentence(reason, self.facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (type(self),), {**self.__dict__, "args": self.args}

    @classmethod
    def received(cls, sentence: str, reason: str = "", facts: Mapping[str, Fact] | None = None) -> Self:
        """Make an error as another process sent it, without the constructor, whose arguments may be missing."""
        error = cls.__new__(cls)
        Exception.__init__(error, reason or sentence)
        error.reason, error.facts, error._sentence = reason, facts or {}, sentence
        return error


def _plain(value: Any) -> Any:
    """Return what JSON can carry: a caller in Python may have given anything where text was asked for."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    fits = value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
    return value if fits else repr(value)


def _empty(kind: type[HoraeError]) -> HoraeError:
    return kind.__new__(kind)


class InvalidInput(HoraeError, ValueError):
    """A value that cannot be accepted; nothing was stored."""

    code = "invalid_input"


class InvalidArguments(InvalidInput):
    """Arguments that do not fit the signature of the handler."""

    code = "invalid_arguments"


class InvalidPayload(InvalidInput):
    """A payload that is not plain, bounded JSON."""

    code = "invalid_payload"


class ContentTooLarge(InvalidInput):
    """Content that is longer than an object may hold."""

    code = "content_too_large"


class InvalidName(InvalidInput):
    """A name, key or tag outside the allowed characters or length."""

    code = "invalid_name"


class PastDue(InvalidInput):
    """A due time in the past, on a door that refuses such times."""

    code = "past_due"


class Unauthorized(HoraeError):
    """No token, or none that is valid."""

    code = "unauthorized"


class Forbidden(HoraeError):
    """The caller is known, and not allowed to do that."""

    code = "forbidden"


class TooManyRequests(HoraeError):
    """Too many requests; repeat later."""

    code = "too_many_requests"

    def __init__(self, reason: str, retry_after: float, limit: str = "", **facts: Fact) -> None:
        super().__init__(reason, **facts)
        self.retry_after = retry_after
        self.limit = limit


class KeysUnavailable(HoraeError):
    """The keys that verify JWTs cannot be fetched."""

    code = "keys_unavailable"

    def __init__(self, reason: str, retry_after: float, **facts: Fact) -> None:
        super().__init__(reason, **facts)
        self.retry_after = retry_after


class NotFound(HoraeError, LookupError):
    """What was asked for does not exist, or belongs to another tenant."""

    code = "not_found"


class NotAllowed(HoraeError):
    """Not possible in the current state."""

    code = "not_allowed"


class IllegalTransition(NotAllowed):
    """An event that the machine of a governed object does not have in its present state."""

    code = "illegal_transition"


class ReservedQueue(NotAllowed):
    """A queue or a job of Horae's own: callers must not enqueue, cancel or pause there."""

    code = "reserved_queue"


class Conflict(HoraeError):
    """The request contradicts what is already stored."""

    code = "conflict"


class KeyConflict(Conflict):
    """The same idempotency key came with another request."""

    code = "key_conflict"

    def __init__(self, key: str, job_id: str) -> None:
        super().__init__("key_taken", key=key, job_id=job_id)
        self.key = key
        self.job_id = job_id


class VersionConflict(Conflict):
    """Another caller changed it since it was read."""

    code = "version_conflict"


class QuotaExceeded(Conflict):
    """The tenant's quota is used up."""

    code = "quota_exceeded"

    def __init__(self, limit: str, allowed: int, reason: str, **facts: Fact) -> None:
        super().__init__(reason, allowed=allowed, **facts)
        self.limit = limit
        self.allowed = allowed


class TokenNeeded(Conflict):
    """An outcome without a token, for a job that another worker may have held too."""

    code = "token_needed"


class LockNotAcquired(Conflict):
    """Another process holds the lock, and still did at the end of the wait."""

    code = "lock_not_acquired"

    def __init__(self, key: str) -> None:
        super().__init__("lock_held", key=key)
        self.key = key


class SecretsLocked(Conflict):
    """Secrets cannot be sealed or opened: a key is missing, or a stored secret was changed."""

    code = "secrets_locked"


class AlreadyRunning(Conflict):
    """A job that must not run twice is already running."""

    code = "already_running"

    def __init__(self, key: str, job_id: str) -> None:
        super().__init__("already_running", key=key, job_id=job_id)
        self.key = key
        self.job_id = job_id


class WaitTimeout(HoraeError, TimeoutError):
    """The wait timed out before its event; nothing was changed."""

    code = "wait_timeout"


class LeaseLost(HoraeError):
    """A worker tried to write to a job that has been handed on."""

    code = "lease_lost"

    def __init__(self, job_id: str, token: int, step: str | None = None) -> None:
        if step is None:
            super().__init__("lease_lost", job_id=job_id, token=token)
        else:
            super().__init__("lease_lost_after_step", job_id=job_id, token=token, step=step)
        self.job_id = job_id
        self.token = token


class LaneLost(HoraeError):
    """A driver tried to write to a lane that another one drives."""

    code = "lane_lost"

    def __init__(self, driver: str, epoch: int, step: str | None = None) -> None:
        if step is None:
            super().__init__("lane_lost", driver=driver, epoch=epoch)
        else:
            super().__init__("lane_lost_after_step", driver=driver, epoch=epoch, step=step)
        self.epoch = epoch


class DefinitionError(HoraeError, ValueError):
    """A declaration that cannot work; raised when it is declared."""

    code = "invalid_definition"


class ConfigurationError(HoraeError):
    """A setting that cannot work."""

    code = "invalid_configuration"


class MissingExtra(ConfigurationError, ImportError):
    """A library that an extra of the package brings is not installed; says which to install."""

    code = "missing_extra"


class NeedsDatabase(ConfigurationError):
    """This process reaches a service only, and what was asked for takes a database."""

    code = "needs_database"


class ServiceUnavailable(HoraeError):
    """A client cannot reach the service, or what answers at its URL is not one."""

    code = "service_unavailable"


class BusUnavailable(ServiceUnavailable):
    """The message bus cannot be reached, or acknowledges nothing; events wait in the outbox."""

    code = "bus_unavailable"


class ExecutorUnavailable(HoraeError):
    """A cluster on which handlers run does not answer; what runs there may go on."""

    code = "executor_unavailable"


class StoreError(HoraeError):
    """An error of the database."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The database cannot be reached, or went away before it answered.

    ``outcome_unknown`` tells whether something that writes had been sent: it may or may not have taken effect.
    """

    code = "store_unavailable"

    def __init__(self, reason: str = "", *, outcome_unknown: bool = False, **facts: Fact) -> None:
        super().__init__(reason, **facts)
        self.outcome_unknown = outcome_unknown


class StoreBusy(StoreError):
    """Another transaction holds a lock in the database."""

    code = "store_busy"


class StoreFull(StoreError):
    """There is no room left where the database keeps its files."""

    code = "store_full"


class StaleMap(StoreError):
    """A database of a cluster refused a write: its map is newer than the caller's, or it does not keep the shard."""

    code = "stale_map"


class PartlyStored(StoreError):
    """Jobs of one call belong to several shards, of which some have stored theirs and others have not.

    ``answers`` has for each job of the call, in its order, the id or the error; ``ids`` has the ids alone.
    """

    code = "partly_stored"

    def __init__(self, answers: Sequence[str | Exception]) -> None:
        self.answers = tuple(answers)
        self.ids = tuple(each for each in answers if isinstance(each, str))
        problem = next((str(each) for each in answers if isinstance(each, Exception)), "")
        super().__init__("cluster_partly_stored", stored=len(self.ids), count=len(self.answers), problem=problem)


class SchemaMissing(StoreError):
    """The tables are absent or of an older version."""

    code = "schema_missing"


class SchemaTooNew(StoreError):
    """The tables were migrated by a newer Horae than this one."""

    code = "schema_too_new"


class HandlerFailed(HoraeError):
    """An attempt failed; carries the handler's message."""

    code = "handler_failed"


class JobFailed(HandlerFailed):
    """A job whose result was asked for is dead or was cancelled; carries its last error."""

    code = "job_failed"


class AddressRefused(InvalidInput):
    """An address that outgoing calls must not go to; nothing was connected."""

    code = "address_refused"


class SignatureRefused(HoraeError):
    """A message that is not signed by a known secret, was changed, or is too old or too new."""

    code = "signature_refused"


class CallFailed(HandlerFailed):
    """No answer: the target could not be reached, broke off, or took too long."""

    code = "call_failed"


class DeliveryFailed(HandlerFailed):
    """The target answered that it could not take the message now."""

    code = "delivery_failed"


class DeliveryRefused(HandlerFailed):
    """The message cannot be delivered, now or later."""

    code = "delivery_refused"


class DispatchFailed(HandlerFailed):
    """The orchestrator reported no success."""

    code = "dispatch_failed"


class InvalidCron(InvalidInput):
    """Cron text that cannot be read; says in which field, where, what was found and what is allowed."""

    code = "invalid_cron"

    def __init__(
        self, expression: str, *, field: str, position: int, found: str, allowed: str, advice: str = ""
    ) -> None:
        super().__init__(
            "cron_unreadable",
            expression=expression,
            field=field,
            position=position,
            character=_character_at(expression, position),
            found=found,
            allowed=allowed,
            advice=advice,
        )
        self.expression = expression
        self.field = field
        self.position = position
        self.found = found
        self.allowed = allowed
        self.advice = advice


def _character_at(expression: str, position: int) -> str:
    """Return the character at a position, counted from 1, in quotes; beyond the last one, where the text ends."""
    return repr(expression[position - 1 : position]) if position <= len(expression) else "end of text"


class InvalidFilter(InvalidInput):
    """A filter that cannot be read; the facts ``expression`` and ``position`` say where the mistake stands."""

    code = "invalid_filter"


class NeverFires(InvalidCron):
    """Cron text that is well formed and names no day of any year."""

    code = "never_fires"


class InvalidInterval(InvalidInput):
    """A period or delay that cannot be kept: not a number, not positive, or finer than a millisecond."""

    code = "invalid_interval"


class IntervalRefused(InvalidInterval):
    """The interval of a user's task is no whole number of seconds, or shorter than the operator allows."""

    code = "interval_refused"


class UnknownZone(InvalidInput):
    """A time zone that the zone database does not know."""

    code = "unknown_zone"

    def __init__(self, name: str) -> None:
        super().__init__("zone_unknown", name=name)
        self.name = name
