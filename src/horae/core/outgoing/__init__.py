"""Outgoing calls: where they may go, what they say, who signed it."""
