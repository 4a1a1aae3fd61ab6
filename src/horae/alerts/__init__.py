"""Alerts for the operator: a webhook when a job dies, or when a queue has due work and no worker serves it."""

from horae.alerts.heartbeat import beat
from horae.alerts.rules import Watched, sender, watch

__all__ = ["Watched", "beat", "sender", "watch"]
