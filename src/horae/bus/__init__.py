"""Publish what happens in a store to a message bus: ``publish(app, "nats://127.0.0.1:4222")``.

Events come out of the store's own outbox, at least once, each with an id that never changes. Needs ``horae[nats]``.
"""

from horae.bus.relay import publish

__all__ = ["publish"]
