"""``python -m benchmarks.pairs OLD NEW``: what a job costs with two versions of the sources, in interleaved pairs.

OLD and NEW are the ``src`` folders of two checkouts. Each round of a pair enqueues jobs one by one and lets a worker
run them; counted is processor time, the client's and the server's, for each job. The two versions take turns, and so
does who begins, so that whatever else the machine does falls on both. The median of the ratios is the message.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from benchmarks.ground import Ground


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("old", type=Path, help="the src folder of the version to compare with")
    parser.add_argument("new", type=Path, help="the src folder of the version to judge")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2000, help="for each round")
    parser.add_argument("--contender", choices=("horae", "horae-sqlite"), default="horae")
    parser.add_argument("--most", type=float, default=1.03, help="the largest ratio that is accepted")
    asked = parser.parse_args()
    sources = {"old": asked.old.resolve(), "new": asked.new.resolve()}
    costs: dict[str, list[Cost]] = {"old": [], "new": []}
    with Ground(durable=False) as ground:
        urls = {name: ground.database(asked.contender, env=with_source(sources[name])) for name in sources}
        for pair in range(asked.pairs):
            for name in ("old", "new") if pair % 2 == 0 else ("new", "old"):
                costs[name].append(measure(ground, asked.contender, urls[name], sources[name], asked.jobs))
            print(f"{pair + 1:3} old {costs['old'][-1].both:7.1f} new {costs['new'][-1].both:7.1f} µs/job", flush=True)
    old, new = costs["old"], costs["new"]
    compare("client", [each.client for each in old], [each.client for each in new])
    if asked.contender == "horae":
        compare("server", [each.server for each in old], [each.server for each in new])
    return int(compare("both", [each.both for each in old], [each.both for each in new]) > asked.most)


if __name__ == "__main__":
    sys.exit(main())
