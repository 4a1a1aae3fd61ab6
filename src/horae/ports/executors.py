"""What Horae asks of a place where handlers run outside the worker: a cluster, a batch system, another machine.

The worker keeps the lease of the job and asks the executor with five verbs. All of them block and are called from
threads; none may wait longer than it says. A cluster that does not answer is ``ExecutorUnavailable``: the worker tries
again, and later puts the attempt back. Everything else that an executor raises fails the attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, Protocol, runtime_checkable

from horae.core.dataclass import dataclass

RemoteState = Literal["waiting", "running", "ended", "gone"]
Handle = Mapping[str, Any]  # what an executor needs to find a call again: any JSON object


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """A call of a handler, to be run elsewhere."""

    name: str  # lower-case letters, digits and hyphens, at most 63 characters; never used for another call
    job_id: str
    attempt: int
    document: str  # JSON; ``horae.executors.run_call`` takes it on the other side
    timeout: timedelta | None = None  # what is left of the attempt's time limit


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """What an executor sees of a call: it waits for room, runs, has ended, or is not known (any more)."""

    state: RemoteState
    progress: Any = None  # what the handler has reported last
    detail: str = ""  # what the cluster says about it, for people


@dataclass(frozen=True, slots=True)
class RemoteEnding:
    """What a call has left behind.

    *ending* is the text that ``run_call`` returned; None where the handler's process ended without one, and then
    *error* and *exit_code* say what is known. *lines* are pairs of level and text.
    """

    ending: str | None
    error: str = ""
    exit_code: int | None = None
    lines: tuple[tuple[str, str], ...] = ()


@runtime_checkable
class RemoteExecutor(Protocol):
    """Run calls elsewhere. ``horae.testing.conformance.ExecutorConformance`` says whether one keeps its promises."""

    @property
    def name(self) -> str:
        """What jobs and errors call it: ``ray``, ``batch``."""

    def submit(self, call: RemoteCall) -> Handle:
        """Start a call and return how to find it again.

        The same name again, also from another process, finds the first call and starts nothing: the worker may die
        between the start and the moment when it has stored the handle.
        """

    def look(self, handle: Handle) -> RemoteStatus:
        """Return the state of a call at once. What the cluster has forgotten is ``gone``."""

    def wait(self, handle: Handle, limit: timedelta) -> RemoteStatus:
        """Return the state when the call has ended or is gone, or after *limit*."""

    def cancel(self, handle: Handle) -> None:
        """Stop a call if it still runs, and forget it; afterwards it is ``gone``.

        Return when it has stopped, not when it was asked to; a call that is gone already is no error.
        """

    def collect(self, handle: Handle) -> RemoteEnding:
        """Return what a call has left behind, any number of times, until it is cancelled.

        Of one that still runs it returns the lines so far, without an ending.
        """
