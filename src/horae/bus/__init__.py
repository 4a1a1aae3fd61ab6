"""A message bus beside a store: events for others, and jobs for workers without a database.

``publish(app, "nats://127.0.0.1:4222")`` tells what happens: events come out of the store's own outbox, at least once,
each with an id that never changes. ``dispatch(app, …)`` hands out jobs to workers that have said how many they can
take; every answer of theirs is fenced by the store. Needs ``horae[nats]``.
"""

from horae.bus.dispatch import dispatch
from horae.bus.relay import publish

__all__ = ["dispatch", "publish"]
