"""``python -m benchmarks``: Horae beside its peers and the bare database, in one run.

Ratios are the message; absolute figures belong to the machine and the moment. Private servers, fsync on. Without
options it measures what changes most often within ten minutes: drain, enqueue, bulk, HTTP and lag. With ``--all`` it
measures everything, larger, within an hour. Beside what Horae must reach it prints whether it did, and fails where it
did not. ``--guard`` compares two commits by the processor time of a job instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace

from benchmarks import pairs
from benchmarks.bursts import bursts
from benchmarks.cases import CASES as OF_THE_STORE
from benchmarks.cases import FULL, QUICK, Row
from benchmarks.ground import Ground
from benchmarks.http import http
from benchmarks.musts import judge

CASES = OF_THE_STORE | {"http": http, "bursts": bursts}
SHORT = ("drain", "two", "single", "bulk", "http", "lag")
# Seconds after which no further round begins; the first round of every case is always run.
BUDGETS = {False: 9 * 60, True: 54 * 60}
RIVALS = {
    "horae": ("pgqueuer", "awa", "oban", "procrastinate", "bare", "starlette"),
    "horae-sqlite": ("huey", "bare-sqlite", "starlette-sqlite"),
}
COSTS = ("worker µs/job", "server µs/job")


def table(rows: list[Row]) -> str:
    """Return the rows of one case, below them Horae's rates in terms of the others', and what it must reach."""
    names = list(dict.fromkeys(name for row in rows for name in row.figures if not name.startswith("-")))
    lines = [f"\n{rows[0].case}", f"  {'':14}" + "".join(f"{name:>24}" for name in names)]
    for row in rows:
        text = row.missing or "".join(_cell(row.figures.get(name)) for name in names)
        lines.append(f"  {row.contender:14}" + (f"  {text}" if row.missing else text))
    lines += [f"  {text}" for text in ratios(rows)]
    lines += [f"  {verdict}" for verdict in judge(rows)]
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    if value is None:
        return f"{'–':>24}"
    return f"{value:>24,.0f}" if abs(value) >= 1000 else f"{value:>24,.2f}"


def ratios(rows: list[Row]) -> list[str]:
    """Return Horae's rates in terms of the others', and in brackets the same by the processor time of a job."""
    rates = {row.contender: row.figures["jobs/s"] for row in rows if "jobs/s" in row.figures}
    costs = {row.contender: sum(row.figures.get(name, 0.0) for name in COSTS) for row in rows}
    return [
        f"{ours} = {rates[ours] / rates[rival]:.2f} x {rival}"
        + (f" ({costs[rival] / costs[ours]:.2f} by processor time)" if costs[ours] and costs[rival] else "")
        for ours, rivals in RIVALS.items()
        for rival in rivals
        if ours in rates and rival in rates
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every case, larger and longer: up to an hour")
    parser.add_argument("--only", action="append", choices=list(CASES), help="this case; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON at the end instead of tables")
    parser.add_argument(
        "--guard", nargs="*", metavar="COMMIT", help="compare two commits: OLD (HEAD) and NEW (the files as they are)"
    )
    parser.add_argument("--pairs", type=int, default=20, help="with --guard: how often both are measured")
    asked = parser.parse_args()
    if asked.guard is not None:
        return pairs.guard(asked.guard, asked.pairs)
    names = asked.only or (list(CASES) if asked.all else SHORT)
    measured = measure(names, is_full=asked.all, is_quiet=asked.json)
    verdicts = list(judge(measured))
    if asked.json:
        found = [asdict(verdict) | {"met": verdict.is_met} for verdict in verdicts]
        json.dump({"rows": [asdict(row) for row in measured], "musts": found}, sys.stdout, indent=2)
    else:
        print("\nWhat Horae must reach", *(f"  {verdict}" for verdict in verdicts), sep="\n")
    return 0 if all(verdict.is_met for verdict in verdicts) else 1


def measure(names: list[str] | tuple[str, ...], *, is_full: bool, is_quiet: bool) -> list[Row]:
    """Measure the cases one after the other, each with its share of the time that is left."""
    measured: list[Row] = []
    ends = time.monotonic() + BUDGETS[is_full]
    with Ground() as ground:
        for index, name in enumerate(names):
            began = time.monotonic()
            share = max(0.0, ends - began) / (len(names) - index)
            rows = CASES[name](ground, replace(FULL if is_full else QUICK, until=began + share))
            measured += rows
            if not is_quiet:
                for case in dict.fromkeys(row.case for row in rows):
                    print(table([row for row in rows if row.case == case]), flush=True)
                print(f"  ({time.monotonic() - began:.0f} s)", flush=True)
    return measured


if __name__ == "__main__":
    sys.exit(main())
