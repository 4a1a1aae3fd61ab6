"""Reading what a process has cost, from /proc, and a few words of statistics."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Stat:
    parent: int
    seconds: float  # of the process and of its children that have ended


def stat_of(pid: int) -> Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return Stat(int(fields[1]), sum(map(int, fields[11:15])) / TICK)


def tree_seconds(root: int) -> float:
    """Processor seconds of a process and everything below it, ended children included."""
    known = {int(name): stat for name in os.listdir("/proc") if name.isdigit() if (stat := stat_of(int(name)))}
    total, waiting = 0.0, [root]
    while waiting:
        pid = waiting.pop()
        if pid in known:
            total += known[pid].seconds
            waiting += [child for child, stat in known.items() if stat.parent == pid]
    return total


def resident_megabytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


class Meter:
    """From its making on: time passed, processor time of this process, and of a server."""

    def __init__(self, server_pid: int | None) -> None:
        self._server_pid = server_pid
        self._server = tree_seconds(server_pid) if server_pid else 0.0
        self._cpu = time.process_time()
        self.began = time.time()

    def worker_seconds(self) -> float:
        return time.process_time() - self._cpu

    def server_seconds(self) -> float:
        return tree_seconds(self._server_pid) - self._server if self._server_pid else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")
