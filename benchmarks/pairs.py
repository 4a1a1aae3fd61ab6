"""``python -m benchmarks.pairs OLD NEW``: what a job costs with two versions of the sources, in interleaved pairs.

OLD and NEW are the ``src`` folders of two checkouts. Each round of a pair enqueues jobs one by one and lets a worker
run them; counted is processor time, the client's and the server's, for each job. The two versions take turns, and so
does who begins, so that whatever else the machine does falls on both. The median of the ratios is the message.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from benchmarks.ground import Ground

JOBS = 8_000  # for each round; few of them measure what happens once
MOST = 1.03  # the largest ratio that is accepted


@dataclass(frozen=True)
class Cost:
    """Microseconds of processor time for each job, from enqueue to its end."""

    client: float
    server: float

    @property
    def both(self) -> float:
        return self.client + self.server


def with_source(source: Path) -> dict[str, str]:
    """Return the environment of a child that runs this version."""
    return {"PYTHONPATH": os.pathsep.join([str(source), str(Path.cwd())])}


def measure(ground: Ground, contender: str, url: str, source: Path, count: int) -> Cost:
    env = with_source(source)
    reports = []
    for work in ("singles", "serve"):
        child = ground.start(contender, url, env=env, work=work, count=count, seconds=120.0)
        reports += ground.together([child])
    if reports[1]["seen"] < count:
        raise SystemExit(f"only {reports[1]['seen']} of {count} jobs ran")
    return Cost(*(sum(each[side] for each in reports) / count * 1e6 for side in ("worker", "server")))


def compare(name: str, old: Sequence[float], new: Sequence[float]) -> float:
    """Print medians and ratios; the median of the ratios."""
    ratios = [later / earlier for earlier, later in zip(old, new, strict=True)]
    low, middle, high = quantiles(ratios, n=4)
    print(
        f"{name:7} old {median(old):6.1f} new {median(new):6.1f} µs/job; new / old: median {middle:.3f}, "
        f"quartiles {low:.3f} to {high:.3f}, of the best {min(new) / min(old):.3f}"
    )
    return middle


def compare_sources(
    old: Path, new: Path, *, rounds: int, jobs: int = JOBS, contender: str = "horae", most: float = MOST
) -> int:
    """Measure both in interleaved pairs; return 1 where the new one costs more than it may."""
    sources = {"old": old, "new": new}
    costs: dict[str, list[Cost]] = {"old": [], "new": []}
    with Ground(durable=False) as ground:
        urls = {name: ground.database(contender, env=with_source(sources[name])) for name in sources}
        for pair in range(rounds):
            for name in ("old", "new") if pair % 2 == 0 else ("new", "old"):
                costs[name].append(measure(ground, contender, urls[name], sources[name], jobs))
            print(f"{pair + 1:3} old {costs['old'][-1].both:7.1f} new {costs['new'][-1].both:7.1f} µs/job", flush=True)
    for side in ("client", "server") if contender == "horae" else ("client",):
        compare(side, *([getattr(each, side) for each in costs[name]] for name in sources))
    ratio = compare("both", *([each.both for each in costs[name]] for name in sources))
    print(f"new / old must be ≤ {most:.2f}: {'met' if ratio <= most else 'NOT MET'}")
    return int(ratio > most)


def source_of(commit: str, folder: Path) -> Path:
    """Unpack the sources of a commit; return their ``src`` folder."""
    packed = subprocess.run(["git", "archive", commit, "src"], capture_output=True)
    if packed.returncode:
        raise SystemExit(packed.stderr.decode().strip())
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder / "src"


def guard(commits: Sequence[str], rounds: int) -> int:
    """Compare an old commit (HEAD unless named) with a new one (the files as they are unless named)."""
    if len(commits) > 2:
        raise SystemExit("--guard takes two commits at most: the old one and the new one")
    with tempfile.TemporaryDirectory() as folder:
        old = source_of(commits[0] if commits else "HEAD", Path(folder) / "old")
        new = source_of(commits[1], Path(folder) / "new") if len(commits) == 2 else Path("src").resolve()
        return compare_sources(old, new, rounds=rounds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("old", type=Path, help="the src folder of the version to compare with")
    parser.add_argument("new", type=Path, help="the src folder of the version to judge")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=JOBS, help="for each round")
    parser.add_argument("--contender", choices=("horae", "horae-sqlite"), default="horae")
    parser.add_argument("--most", type=float, default=MOST, help="the largest ratio that is accepted")
    asked = parser.parse_args()
    return compare_sources(
        asked.old.resolve(), asked.new.resolve(), rounds=asked.pairs, jobs=asked.jobs, contender=asked.contender,
        most=asked.most,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
