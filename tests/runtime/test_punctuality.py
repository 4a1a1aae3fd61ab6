"""A worker sleeps exactly until the next due instant, and no instant falls between its claim and its look."""

from __future__ import annotations

from datetime import datetime, timedelta

from horae import Horae
from horae.ports.workers import Upcoming


class Bell:
    """Notes how long the worker wanted to sleep."""

    def __init__(self) -> None:
        self.until: datetime | None = None

    async def sleep(self, until: datetime | None, at_most: timedelta) -> bool:
        self.until = until
        return False


async def test_what_became_due_after_the_claim_is_not_taken_for_blocked(app: Horae) -> None:
    worker, bell = app.worker(), Bell()
    worker._alarm = bell  # type: ignore[assignment]
    due = worker._claimed_at + timedelta(microseconds=1)

    await worker._sleep(Upcoming(next_due_at=due, next_expiry_at=None), due + timedelta(milliseconds=4))

    assert bell.until == due
    assert worker._expects_work


async def test_what_was_due_at_the_claim_and_could_not_be_had_is_asked_for_again_a_moment_later(app: Horae) -> None:
    worker, bell = app.worker(), Bell()
    worker._alarm = bell  # type: ignore[assignment]
    now = worker._claimed_at + timedelta(milliseconds=5)

    await worker._sleep(Upcoming(next_due_at=worker._claimed_at, next_expiry_at=None), now)

    assert bell.until is not None
    assert bell.until > now
