"""The arithmetic of rate limits: an exact sliding-window log.

The log holds the instant of every call of the last window. A call may be made when fewer than ``max_calls`` of them
lie inside the window that ends now; so no window, wherever it begins, ever holds more. A burst may use the whole
quota at once. Instants are whole microseconds; the window is half open: a call exactly one window ago has left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import timedelta

from horae.core.dataclass import dataclass
from horae.errors import DefinitionError

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Limit:
    """At most *max_calls* in any *window*; all who use one name share one quota."""

    name: str
    max_calls: int
    window: timedelta

    def __post_init__(self) -> None:
        if not isinstance(self.max_calls, int) or isinstance(self.max_calls, bool):
            raise DefinitionError("rate_not_whole", value=repr(self.max_calls))
        if self.max_calls < 1:
            raise DefinitionError("rate_too_low", max_calls=self.max_calls)
        if self.window < timedelta(milliseconds=1):
            raise DefinitionError("rate_window_too_short", window=str(self.window))
        if not self.name or len(self.name) > 255:
            raise DefinitionError("rate_name_unreadable")

    @property
    def micros(self) -> int:
        """The window in microseconds."""
        return self.window // MICROSECOND

    def first_counted(self, calls: Sequence[int], now: int) -> int:
        """Return the index of the first of these calls (in order) that still counts."""
        return bisect_right(calls, now - self.micros)

    def next_turn(self, counted: int, ahead: int) -> tuple[int, int]:
        """Return what the next call waits for: how many windows, and after which of the counted calls (its index).

        *counted* calls lie inside the window and *ahead* callers were here before. No windows means: go. An index
        beyond the counted calls stands for a call that could be made right now, so the windows begin now.
        """
        return divmod(min(counted, self.max_calls) + ahead, self.max_calls)

    def turn_at(self, calls: Sequence[int], ahead: int, now: int) -> int:
        """Return when a caller with *ahead* others before it may call: *now*, or an instant to come.

        *calls* are the instants that still count, in order. If every caller ahead calls as soon as it may, the answer
        is exact; if one of them gives up, asking again gives an earlier instant.
        """
        recent = calls[-self.max_calls :]  # more than the limit only after it was lowered
        windows, index = self.next_turn(len(recent), ahead)
        start = recent[index] if index < len(recent) else now
        return start + windows * self.micros if windows else now
