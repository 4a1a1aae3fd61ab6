"""What Horae must reach, and whether it did: the table that ``make bench`` prints.

A ratio is taken inside one run, from the best rounds of both; where several peers are measured, the best of them
counts, and one that is not installed decides nothing. What is not measured in a run is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.bursts import MOST as BURSTS
from benchmarks.cases import Row

PEERS = ("pgqueuer", "awa", "oban", "procrastinate")
SPEED = "jobs/s"


@dataclass(frozen=True)
class Must:
    """A bound for one figure of one contender; with *of* for its ratio to the best of those."""

    case: str  # how its title begins
    ours: str
    figure: str
    bound: float
    of: tuple[str, ...] = ()
    at_most: bool = False


@dataclass(frozen=True)
class Verdict:
    """One line of the table."""

    work: str
    value: float
    must: Must
    rival: str = ""

    @property
    def is_met(self) -> bool:
        return self.value <= self.must.bound if self.must.at_most else self.value >= self.must.bound

    def __str__(self) -> str:
        sign = "≤" if self.must.at_most else "≥"
        what = f"x {self.rival}" if self.rival else self.must.figure
        met = "met" if self.is_met else "NOT MET"
        return (
            f"{self.work:<48} {self.must.ours:<13} {self.value:>10,.2f} {what:<18} "
            f"must {sign} {self.must.bound:,g}  {met}"
        )


MUSTS = (
    *(Must("HTTP, single enqueue", ours, "one core gives/s", 1_500) for ours in ("horae", "horae-sqlite")),
    *(Must("HTTP, pull and end", ours, "one core gives/s", 5_000) for ours in ("horae", "horae-sqlite")),
    Must("drain, one worker", "horae", SPEED, 2.0, of=PEERS),
    Must("drain, two workers", "horae", SPEED, 1.5, of=PEERS),
    Must("drain, one worker", "horae-sqlite", SPEED, 10.0, of=("huey",)),
    Must("bulk enqueue", "horae", SPEED, 2.0, of=PEERS),
    Must("bulk enqueue", "horae", SPEED, 0.6, of=("bare",)),
    Must("bulk enqueue", "horae-sqlite", SPEED, 0.4, of=("bare-sqlite",)),
    Must("single enqueue", "horae", SPEED, 1.4, of=PEERS),
    Must("single enqueue", "horae", SPEED, 0.85, of=("bare",)),
    Must("single enqueue", "horae-sqlite", SPEED, 1.0, of=("huey",)),
    *(
        Must(f"{count:,} schedules", ours, f"{what}, s", most, at_most=True)
        for what, bounds in BURSTS.items()
        for count, most in bounds.items()
        for ours in ("horae", "horae-sqlite")
    ),
    Must("enqueue to start", "horae", "p50 ms", 4.0, at_most=True),
    Must("enqueue to start", "horae", "p99 ms", 20.0, at_most=True),
    Must("enqueue to start", "horae-sqlite", "p50 ms", 5.0, at_most=True),
    Must("enqueue to start", "horae-sqlite", "p99 ms", 55.0, at_most=True),
    Must("lag beside", "horae-sqlite", "p99 ms", 15.0, at_most=True),
    *(Must("idle worker", ours, "memory MB", 60.0, at_most=True) for ours in ("horae", "horae-sqlite")),
    Must("growth: drain of", "horae", "of without", 0.9),
)


def judge(rows: Sequence[Row]) -> Iterator[Verdict]:
    """Yield a verdict for every must whose figures were measured."""
    for must in MUSTS:
        figures = {
            row.contender: row.figures[must.figure]
            for row in rows
            if row.case.startswith(must.case) and must.figure in row.figures
        }
        work = next((row.case for row in rows if row.case.startswith(must.case)), must.case)
        ours, rivals = figures.get(must.ours), [name for name in must.of if figures.get(name)]
        if ours is None or (must.of and not rivals):
            continue
        rival = max(rivals, key=figures.__getitem__, default="")
        yield Verdict(work, ours / figures[rival] if rival else ours, must, rival)
