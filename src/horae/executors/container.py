"""Read what ``python -m horae.executors`` has written: lines, progress and the ending of a call."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.jobs.lines import MOST_LINES

PREFIX = "horae:"
ENDING_FILE = "HORAE_ENDING_FILE"  # where the ending is written too, cut short: a pod's termination message
SHORT = 4000  # bytes; Kubernetes keeps 4096 of a termination message


@dataclass
class Output:
    """What a process has written so far."""

    ending: str | None = None
    progress: Any = None
    lines: list[tuple[str, str]] = field(default_factory=list)

    def read(self, written: Iterable[str]) -> Output:
        """Take in lines of its output; what is not ours was printed by the handler."""
        for each in written:
            text = each.rstrip("\n")
            message = _message(text) if text.startswith(PREFIX) else None
            match message:
                case {"ending": str(ending)}:
                    self.ending = ending
                case {"progress": progress}:
                    self.progress = progress
                case {"line": [str(level), str(line)]}:
                    self.lines.append((level, line))
                case _ if text:
                    self.lines.append(("INFO", text))
        del self.lines[:-MOST_LINES]
        return self


def _message(text: str) -> Any:
    try:
        return json.loads(text.removeprefix(PREFIX))
    except ValueError:  # cut off in the middle
        return None


def short_ending(ending: str) -> str:
    """Return an ending that fits where only little is kept; a result that is too long is marked as left out."""
    if len(ending.encode()) <= SHORT:
        return ending
    full = json.loads(ending)
    kept = {**full, "result": None, "left_out": True, "error": str(full.get("error", ""))[: SHORT // 8]}
    return json.dumps(kept)


def is_whole(ending: str) -> bool:
    """Return whether nothing was left out of an ending."""
    return not json.loads(ending).get("left_out", False)


def exit_text(code: int | None) -> str:
    """Return how a process ended, in words; shells and Kubernetes tell a signal as 128 and its number."""
    if code is None:
        return "ended, and how is not known"
    number = -code if code < 0 else code - 128
    if 0 < number < 65:
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        why = " (out of memory, or kill -9)" if number == signal.SIGKILL else ""
        return f"was killed by {name}{why}"
    return f"ended with exit code {code} before the handler did"
