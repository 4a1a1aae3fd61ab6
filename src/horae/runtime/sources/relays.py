"""The relays of a cluster, as a worker on the bus knows them: each announces itself again and again.

A worker asks one of them at a time for the jobs of a queue, with all its free slots, so that no two claim for the same.
It moves its ask to a relay that says that jobs are due there. A single database announces no relay; then asks and calls
name none.
"""

from __future__ import annotations

from horae.core.dispatch import ANY, Announcement
from horae.ports.world import Clock

SILENT = 3.0  # seconds after which a relay that announces nothing is taken for gone
SKIPPED = 5.0  # seconds for which no ask goes to a relay that did not answer one
DUE = 1.0  # seconds for which jobs are taken for due after a relay has said so


class Relays:
    """The relays that were heard of; for one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[str, float] = {}  # when each was last heard
        self._skipped: dict[str, float] = {}  # until when
        self._due: dict[tuple[str, str], float] = {}  # until when jobs of a relay and a queue are taken for due
        self._last: dict[str, str] = {}  # whom the jobs of a queue were last asked of
        self._called = ""  # who got the last call that any can perform

    @property
    def are_known(self) -> bool:
        """Whether one was ever heard of, so that there are several databases."""
        return bool(self._heard)

    def hear(self, said: Announcement) -> None:
        """Note what a relay has announced."""
        now = self._clock.monotonic()
        self._heard[said.relay] = float("-inf") if said.ends else now
        for queue in said.due:
            self._due[said.relay, queue] = now + DUE

    def is_live(self, relay: str) -> bool:
        """Return whether a relay was heard lately."""
        return self._clock.monotonic() - self._heard.get(relay, float("-inf")) < SILENT

    def live(self) -> list[str]:
        """Return the relays of databases that were heard lately."""
        return sorted(each for each in self._heard if each != ANY and self.is_live(each))

    def is_due(self, relay: str, queue: str) -> bool:
        """Return whether a relay has probably due jobs of a queue, and answers."""
        now = self._clock.monotonic()
        return self._due.get((relay, queue), 0.0) > now and self._skipped.get(relay, 0.0) <= now

    def choose(self, queue: str) -> str | None:
        """Return whom to ask next: in turn those where jobs are due, else all; None while none is known."""
        now, live = self._clock.monotonic(), self.live()
        answering = [each for each in live if self._skipped.get(each, 0.0) <= now] or live
        due = [each for each in answering if self.is_due(each, queue)]
        chosen = _next(due or answering, self._last.get(queue, ""))
        if chosen is not None:
            self._last[queue] = chosen
            self._due.pop((chosen, queue), None)  # until it answers, or calls again: it may have nothing by now
        return chosen

    def note_answer(self, relay: str, queue: str, *, is_full: bool) -> None:
        """Note that a relay has answered an ask; where it filled all slots, more is probably due."""
        self._skipped.pop(relay, None)
        if is_full:
            self._due[relay, queue] = self._clock.monotonic() + DUE

    def skip(self, relay: str) -> None:
        """Ask others for a while: this one did not answer."""
        self._skipped[relay] = self._clock.monotonic() + SKIPPED

    def next_live(self) -> str | None:
        """Return who gets a call that any can perform, in turn; None while none is known."""
        chosen = _next(self.live(), self._called)
        self._called = chosen or ""
        return chosen


def _next(names: list[str], last: str) -> str | None:
    """Return the name behind the last one, in a circle."""
    return next((each for each in names if each > last), names[0] if names else None)
