"""Several real processes on one SQLite file: no process sees it locked, and nothing is lost."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from tests.stores.conftest import opened

# Each process enqueues, claims and settles as fast as it can, and writes down what it did. It stops by itself when it
# has done its share and the queue is empty, or when its time is up.
HAMMER = """
import json, sys, threading, time
from datetime import UTC, datetime, timedelta
from horae.core.jobs.job import Outcome, settlement
from horae.ports.claims import Claim
from horae.stores.opening import create_store_engine, open_store
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON

url, me, share = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = open_store(create_store_engine(url))
sys.stdin.read(1)
put, done = [], []
lock = threading.Lock()

def enqueue(part):
    for place in range(share // 2):
        key = f"{me}-{part}-{place}" if place % 5 == 0 else None
        now = datetime.now(UTC)
        numbers = [p.number for p in store.insert([a_new_job({"by": me}, run_at=now, key=key)], now=now)]
        with lock:
            put.extend(numbers)

threads = [threading.Thread(target=enqueue, args=(part,)) for part in range(2)]
for thread in threads:
    thread.start()
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    all_is_put = not any(thread.is_alive() for thread in threads)  # asked first: what comes later is claimed later
    now = datetime.now(UTC)
    jobs = store.claim(Claim("default", 5, me, timedelta(seconds=60)), now=now)
    if jobs:
        written = [settlement(job, Outcome("succeeded"), now=now, roll=0.5) for job in jobs]
        rejected = store.settle(written, now=now)
        done.extend(job.number for job in jobs if job.number not in rejected)
    elif all_is_put:
        break
store.close()
print(json.dumps({"put": put, "done": done}))
"""


def started(command: list[str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe)


def test_four_processes_hammer_one_file_and_nothing_is_lost_or_locked(tmp_path: Path) -> None:
    """C-33; I1: all that was accepted is finished, once."""
    url = f"sqlite:///{tmp_path / 'horae.db'}"
    command = [sys.executable, "-c", HAMMER, url]
    processes = [started([*command, f"p{place}", "120"]) for place in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("!")
        process.stdin.flush()
    answers = [process.communicate(timeout=100) for process in processes]
    store = opened(url)
    counts = store.read(lambda tx: tx.jobs.counts(None, None, now=NOON))
    store.close()

    assert [problems for _, problems in answers] == [""] * 4
    result = [json.loads(answer) for answer, _ in answers]
    put = Counter(number for each in result for number in each["put"])
    done = Counter(number for each in result for number in each["done"])
    assert len(put) == 480
    assert done == put
    assert counts == {("default", "succeeded"): 480}


PASSER_BY = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute(sys.argv[2]).fetchone()[0])
connection.close()
"""


def test_a_process_that_comes_and_goes_takes_nobodys_log_along(tmp_path: Path) -> None:
    """C-33: whoever closes a file last removes its log, so a process with several connections must keep its locks.

    They go as soon as anything in the process closes the file by another way than SQLite's.
    """
    path = tmp_path / "horae.db"
    store = opened(f"sqlite:///{path}")
    store.insert([a_new_job({})], now=NOON)
    with store.engine.connect(), store.engine.connect(), store.engine.connect():  # the pool grows
        passing = [sys.executable, "-c", PASSER_BY, str(path)]
        assert subprocess.check_output([*passing, "SELECT 1 FROM horae_jobs"], text=True) == "1\n"
        store.insert([a_new_job({})], now=NOON)
        seen = subprocess.check_output([*passing, "SELECT count(*) FROM horae_jobs"], text=True)
    store.close()
    assert seen == "2\n"
