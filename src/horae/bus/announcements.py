"""What a relay of a cluster says to all workers: that it is there, and that jobs are due for which it has no ask.

A worker asks one relay at a time, so that no two claim for the same slots. Each relay hears the asks for the others,
too, and knows from them which queues are wanted; where it has due jobs of such a queue and no ask, it calls for one.
Announcements may get lost: they are repeated for as long as they are true.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from horae.core.dispatch import Announcement, Subjects
from horae.ports.world import Clock
from horae.runtime.loop import Alarm
from horae.runtime.nats import LastingConnection

EVERY = timedelta(seconds=1)  # a third of the time after which workers hold a relay for silent
WANTED = 10.0  # seconds for which a queue is known to be wanted after an ask for it
CALL_AGAIN = timedelta(milliseconds=250)  # between two calls for an ask


class Announcer:
    """The voice of one relay."""

    def __init__(self, connection: LastingConnection, subjects: Subjects, relay: str, clock: Clock) -> None:
        self._connection, self._subjects, self._relay, self._clock = connection, subjects, relay, clock
        self._wanted: dict[str, float] = {}  # until when each queue is known to be wanted
        self._called: dict[str, float] = {}  # when an ask for it was last called for

    async def serve(self, is_well: Callable[[], bool]) -> None:
        """Say again and again that this relay is there, while its database answers."""
        alarm = Alarm(self._clock)
        while True:
            if is_well():
                await self._say(Announcement(self._relay))
            await alarm.sleep(None, EVERY)

    async def end(self) -> None:
        """Say that this relay ends, so that workers do not wait for it."""
        await self._say(Announcement(self._relay, ends=True))

    def want(self, queue: str) -> bool:
        """Note that a worker wants jobs of a queue from some relay; return whether that is news."""
        now = self._clock.monotonic()
        is_new = self._wanted.get(queue, 0.0) <= now
        self._wanted[queue] = now + WANTED
        return is_new

    def unserved(self, asked: Collection[str]) -> list[str]:
        """Return the queues that are wanted by workers and not *asked* for here."""
        now = self._clock.monotonic()
        self._wanted = {queue: until for queue, until in self._wanted.items() if until > now}
        return sorted(set(self._wanted) - set(asked))

    def is_wanted(self, queue: str) -> bool:
        """Return whether a worker wants jobs of a queue; from any thread."""
        return queue in self._wanted

    async def call_for(self, queues: Sequence[str]) -> None:
        """Call for asks: jobs of these queues are due here."""
        now = self._clock.monotonic()
        due = [queue for queue in queues if self._called.get(queue, 0.0) + CALL_AGAIN.total_seconds() <= now]
        self._called = {queue: at for queue, at in self._called.items() if queue in self._wanted} | dict.fromkeys(
            due, now
        )
        if due:
            await self._say(Announcement(self._relay, tuple(due)))

    async def _say(self, announcement: Announcement) -> None:
        await self._connection.hint(self._subjects.announce, announcement.as_json())
