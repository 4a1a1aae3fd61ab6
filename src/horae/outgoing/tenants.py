"""What the store knows of the tenant of an outgoing call: where it may go, and which task it belongs to."""

from __future__ import annotations

from collections.abc import Callable

from horae.actions.access.owners import get_owner
from horae.actions.scheduled_tasks import key_of
from horae.core.jobs.job import Job
from horae.core.outgoing.targets import Rules
from horae.ports.store import Store
from horae.ports.world import World

MOST_TASKS = 10_000  # remembered; a key is short


class StoreRules:
    """A tenant's rules as the operator set them; asked for each call, so that a change counts at once."""

    def __init__(self, opens: Callable[[], World]) -> None:
        self._opens = opens

    def __call__(self, owner: str) -> Rules:
        return get_owner(self._opens(), owner).rules


class StoreTasks:
    """The key of the schedule that a job comes from: a user's task is known by it.

    Neither the number nor the key of a schedule ever changes or is used again, so each is asked for once.
    """

    def __init__(self, opens: Callable[[], World]) -> None:
        self._opens = opens
        self._store: Store | None = None
        self._keys: dict[int, str] = {}

    def __call__(self, job: Job) -> str | None:
        number = job.schedule_id
        if number is None:
            return None
        world = self._opens()
        if world.store is not self._store or len(self._keys) >= MOST_TASKS:
            self._store, self._keys = world.store, {}
        key = self._keys.get(number)
        if key is None:
            key = key_of(world, number)
            if key is None:  # deleted while its last job waited
                return None
            self._keys[number] = key
        return key
