"""``python -m benchmarks.pairs OLD NEW``: what a job costs with two versions of the sources, in interleaved pairs.

OLD and NEW are the ``src`` folders of two checkouts. Each round of a pair enqueues jobs one by one and lets a worker
run them; counted is processor time, the client's and the server's, for each job. The two versions take turns, and so
does who begins, so that whatever else the machine does falls on both. The median of the ratios is the message.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import median, quantiles

from benchmarks.ground import Ground


def cost(ground: Ground, contender: str, url: str, source: Path, count: int) -> float:
    """Microseconds of processor time for each job, from enqueue to its end."""
    env = {"PYTHONPATH": os.pathsep.join([str(source), str(Path.cwd())])}
    told = []
    for work in ("singles", "serve"):
        child = ground.start(contender, url, env=env, work=work, count=count, seconds=120.0)
        told += ground.together([child])
    if told[1]["seen"] < count:
        raise SystemExit(f"only {told[1]['seen']} of {count} jobs ran")
    seconds: float = sum(each["worker"] + each["server"] for each in told)
    return seconds / count * 1e6


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
    costs: dict[str, list[float]] = {"old": [], "new": []}
    with Ground(durable=False) as ground:
        urls = {name: ground.database(asked.contender) for name in sources}
        for pair in range(asked.pairs):
            for name in ("old", "new") if pair % 2 == 0 else ("new", "old"):
                costs[name].append(cost(ground, asked.contender, urls[name], sources[name], asked.jobs))
            print(f"{pair + 1:3} old {costs['old'][-1]:7.1f} new {costs['new'][-1]:7.1f} µs/job", flush=True)
    ratios = [new / old for old, new in zip(costs["old"], costs["new"], strict=True)]
    low, _, high = quantiles(ratios, n=4)
    print(f"old {median(costs['old']):.1f} µs/job, new {median(costs['new']):.1f} µs/job (medians)")
    print(f"new / old: median {median(ratios):.3f}, quartiles {low:.3f} to {high:.3f}, best of each "
          f"{min(costs['new']) / min(costs['old']):.3f}")  # fmt: skip
    return int(median(ratios) > asked.most)


if __name__ == "__main__":
    sys.exit(main())
