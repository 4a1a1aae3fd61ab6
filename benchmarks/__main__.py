"""``python -m benchmarks``: Horae beside its peers and the bare database, in one run.

Ratios are the message; absolute figures belong to the machine and the moment. Private servers, fsync on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict

from benchmarks.cases import CASES, FULL, QUICK, Row, Size
from benchmarks.ground import Ground

RIVALS = {"horae": ("pgqueuer", "procrastinate", "bare"), "horae-sqlite": ("huey", "bare-sqlite")}


def table(rows: list[Row]) -> str:
    """Return the rows of one case, and below them Horae's rates in terms of the others'."""
    names = list(dict.fromkeys(name for row in rows for name in row.figures if not name.startswith("-")))
    lines = [f"\n{rows[0].case}", f"  {'':14}" + "".join(f"{name:>24}" for name in names)]
    for row in rows:
        text = row.missing or "".join(_cell(row.figures.get(name)) for name in names)
        lines.append(f"  {row.contender:14}" + (f"  {text}" if row.missing else text))
    lines += [f"  {text}" for text in ratios(rows)]
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    if value is None:
        return f"{'–':>24}"
    return f"{value:>24,.0f}" if abs(value) >= 1000 else f"{value:>24,.2f}"


def ratios(rows: list[Row]) -> list[str]:
    rates = {row.contender: row.figures["jobs/s"] for row in rows if "jobs/s" in row.figures}
    return [
        f"{ours} = {rates[ours] / rates[rival]:.2f} x {rival}"
        for ours, rivals in RIVALS.items()
        for rival in rivals
        if ours in rates and rival in rates
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="larger and longer: about an hour")
    parser.add_argument("--json", action="store_true", help="print JSON at the end instead of tables")
    parser.add_argument("--only", action="append", choices=list(CASES), help="this case; may be repeated")
    asked = parser.parse_args()
    size: Size = FULL if asked.full else QUICK
    measured: list[Row] = []
    with Ground() as ground:
        for name in asked.only or CASES:
            began = time.monotonic()
            rows = CASES[name](ground, size)
            measured += rows
            if not asked.json:
                print(table(rows), f"  ({time.monotonic() - began:.0f} s)", sep="\n", flush=True)
    if asked.json:
        json.dump([asdict(row) for row in measured], sys.stdout, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
