"""How long the next fire takes: Horae beside croniter and cronsim, in one run.

``python -m benchmarks.cron`` prints a table in microseconds, ``--json`` the same as JSON. *kept* asks a schedule that
was read once, *anew* reads the text each time, *cold* also forgets every cached field (but not the zone). A figure
is the best of several rounds, because the machine's other work can only add to it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from time import perf_counter
from typing import Any
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from horae.core.time import cron_text
from horae.core.time.cron import Cron

NOW = datetime(2026, 5, 13, 12, 34, 56, tzinfo=UTC)
CASES = (
    ("*/5 * * * *", "UTC"),
    ("*/5 * * * *", "Europe/Berlin"),
    ("0 9 * * 1-5", "Europe/Berlin"),
    ("30 2 * * *", "America/New_York"),
    ("0 0 1 * *", "Asia/Shanghai"),
    ("0 0 29 2 *", "Europe/Berlin"),
)
ROUNDS, CALLS = 15, 400


def best(call: Callable[[], object]) -> float:
    """Microseconds for one call, in the quietest round."""
    rounds = []
    for _ in range(ROUNDS):
        began = perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append(perf_counter() - began)
    return min(rounds) / CALLS * 1e6


def measure(expression: str, zone: str) -> dict[str, Any]:
    local = NOW.astimezone(ZoneInfo(zone))
    kept = Cron(expression, zone)
    kept_croniter = croniter(expression, local)

    def cold() -> object:
        cron_text._read_field.cache_clear()
        return Cron(expression, zone).next_after(NOW)

    figures = {
        "kept": best(lambda: kept.next_after(NOW)),
        "anew": best(lambda: Cron(expression, zone).next_after(NOW)),
        "cold": best(cold),
        "cronsim anew": best(lambda: next(CronSim(expression, local))),
        "croniter kept": best(lambda: kept_croniter.get_next(datetime, start_time=local)),
        "croniter anew": best(lambda: croniter(expression, local).get_next(datetime)),
    }
    ratios = {
        "cronsim / anew": figures["cronsim anew"] / figures["anew"],
        "croniter / anew": figures["croniter anew"] / figures["anew"],
        "croniter / kept": figures["croniter kept"] / figures["kept"],
    }
    return {"expression": expression, "zone": zone, "microseconds": figures, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    results = [measure(expression, zone) for expression, zone in CASES]
    if asked.json:
        json.dump(results, sys.stdout, indent=2)
        return
    names = [*results[0]["microseconds"], *results[0]["ratios"]]
    print(f"{'':36}" + "".join(f"{name:>17}" for name in names))
    for result in results:
        figures = "".join(f"{value:17.2f}" for value in (result["microseconds"] | result["ratios"]).values())
        print(f"{result['expression']:16}{result['zone']:20}" + figures)


if __name__ == "__main__":
    main()
