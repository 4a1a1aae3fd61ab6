"""One contender in a process of its own: ``python -m benchmarks.child '{"contender": …, "work": …}'``.

Prints ``ready`` when everything is imported, waits for a line, does its work and prints what it measured as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any

from benchmarks.contenders import Contender, make
from benchmarks.meter import Meter, resident_megabytes

FAR = time.time() + 10**7
SELDOM = 10_000  # new objects between two garbage collections, as in `horae worker`
QUIET = 1.0  # a drain without a count ends when nothing has come for so long


def work(contender: Contender, asked: dict[str, Any]) -> dict[str, Any]:
    kind = asked["work"]
    if kind == "prepare":
        contender.prepare()
        return {}
    if kind in ("bulk", "singles"):
        return enqueue(contender, asked)
    if kind == "sow":
        return sow(contender, asked)
    return serve(contender, asked)


def enqueue(contender: Contender, asked: dict[str, Any]) -> dict[str, Any]:
    contender.singles([FAR])  # opens the connections
    meter = Meter(asked.get("server_pid"))
    began = time.perf_counter()
    if asked["work"] == "bulk":
        contender.bulk(asked["count"], asked.get("at", 0.0))
    else:
        contender.singles([asked.get("at", 0.0)] * asked["count"])
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "worker": meter.worker_seconds(), "server": meter.server_seconds()}


def sow(contender: Contender, asked: dict[str, Any]) -> dict[str, Any]:
    """Jobs whose lag others will measure: all due in a while, or one by one, due at once."""
    if asked["lead"]:
        first = time.time() + asked["lead"]
        contender.singles([first + place * asked["pause"] for place in range(asked["count"])])
        return {}
    for _ in range(asked["count"]):
        contender.singles([time.time()])
        time.sleep(asked["pause"])
    time.sleep(0.3)  # a hint to the workers may still be on its way
    return {}


def serve(contender: Contender, asked: dict[str, Any]) -> dict[str, Any]:
    """Run a worker until it has seen ``count`` jobs, nothing has come for a while, or ``seconds`` have passed.

    The clocks start with the first job, so that starting up is not measured.
    """
    lags: list[float] = []
    seen, last, cost = 0, 0.0, (0.0, 0.0)
    meter = Meter(asked.get("server_pid"))
    stop_at = time.time() + asked["seconds"]
    count, shared = asked.get("count"), asked.get("shared", False)

    def record(at: float) -> None:
        nonlocal seen, last, meter
        if not seen and count is not None:
            meter = Meter(asked.get("server_pid"))
        seen += 1
        last = time.time()
        if at:
            lags.append(last - at)

    def until() -> bool:
        nonlocal cost
        now = time.time()
        quiet = shared and last > 0 and now - last > QUIET
        done = now > stop_at or quiet or (count is not None and seen >= count)
        if not cost[0] and (done or (count is not None and seen >= count)):
            cost = (meter.worker_seconds(), meter.server_seconds())
        return done

    ended = contender.serve(record, until)
    return {
        "seen": seen,
        "began": meter.began,
        "ended": ended or last,
        "worker": cost[0],
        "server": cost[1],
        "lags": lags,
        "megabytes": resident_megabytes(os.getpid()),
    }


def main() -> None:
    gc.set_threshold(SELDOM)  # for every contender alike
    asked = json.loads(sys.argv[1])
    try:
        contender = make(asked["contender"], asked["url"])
    except ImportError as problem:
        print(json.dumps({"missing": str(problem)}), flush=True)
        return
    gc.collect()  # for every contender alike: what importing has left behind is not looked through while it is measured
    gc.freeze()
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        answer = work(contender, asked)
    except NotImplementedError as problem:
        answer = {"missing": str(problem)}
    print(json.dumps(answer), flush=True)
    sys.stdout.flush()
    os._exit(0)  # threads of a peer must not keep the measurement waiting


if __name__ == "__main__":
    main()
