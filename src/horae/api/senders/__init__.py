"""Senders that run operations in this process: blocking, or in threads beside an event loop."""
