"""For our users' tests and for our own: the Lab, virtual time, loaded dice, builders, the suite for stores."""

from horae.testing.clock import LoadedDice, VirtualClock
from horae.testing.lab import Lab
from horae.testing.sync_lab import SyncLab

__all__ = ["Lab", "LoadedDice", "SyncLab", "VirtualClock"]
