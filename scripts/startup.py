"""Measure what a command costs to start, beside the imports it cannot do without: `python -m scripts.startup`.

The CPU (user and system) of whole processes, medians of ten runs that take turns, so that a busy machine disturbs both
sides alike. A first run is not counted: it compiles us, as it compiled the yardstick long ago. Ends with 1 when a
command costs more than half as much again as its yardstick.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROUNDS = 10
LIMIT = 1.5
HORAE = str(Path(sys.executable).with_name("horae"))
COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_seconds(command: list[str]) -> float:
    """Run *command* to its end and return the CPU seconds of its process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=COMPILED)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/horae.db"
        subprocess.run([HORAE, "db", "migrate", "--db", database], check=True, stdout=subprocess.DEVNULL)
        pairs = [
            ([HORAE, "--help"], "import typer"),
            ([HORAE, "job", "list", "--db", database], "import typer, sqlalchemy"),
        ]
        measured: list[tuple[list[float], list[float]]] = [([], []) for _ in pairs]
        for command, _ in pairs:
            cpu_seconds(command)
        for _ in range(ROUNDS):
            for (command, imports), (costs, yardsticks) in zip(pairs, measured, strict=True):
                yardsticks.append(cpu_seconds([sys.executable, "-c", imports]))
                costs.append(cpu_seconds(command))
    worst = 0.0
    for (command, imports), (costs, yardsticks) in zip(pairs, measured, strict=True):
        factor = median(costs) / median(yardsticks)
        worst = max(worst, factor)
        name = " ".join(["horae", *command[1:]]).replace(database, "…")
        cost, yardstick = median(costs) * 1000, median(yardsticks) * 1000
        print(f"{name:24} {cost:5.0f} ms   {imports:26} {yardstick:5.0f} ms   {factor:.2f} x")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
