"""The messenger in a worker: children in other databases start soon, whoever is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.test_walk import Shop
from tests.support.waiting import wait_until

SHOP = """
import os, time
from pathlib import Path
from horae import Horae

app = Horae()
DONE = Path(os.environ["SHOP_DONE"])


@app.job("step")
def step(ctx, name: str) -> str:
    found = ",".join(sorted(str(each.result) for each in ctx.parents()))
    with DONE.open("a") as out:
        out.write(f"{name}:{found}:{time.time():.3f}\\n")
    return name


def chains(count: int, length: int) -> None:
    for chain in range(count):
        before = None
        for link in range(length):
            given = {} if before is None else {"after": [before]}
            before = step.using(key=f"{chain}-{link}", **given).enqueue(name=f"{chain}-{link}").id
    app.close()
"""
CHAINS, LENGTH = 6, 5


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    return made


@contextmanager
def worker(shop: Shop) -> Iterator[subprocess.Popen[bytes]]:
    started = shop.worker()
    try:
        yield started
    finally:
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
            assert started.wait(60) == 0


def done(shop: Shop) -> list[list[str]]:
    return [line.split(":") for line in shop.done.read_text().split()] if shop.done.exists() else []


def check_chains(found: list[list[str]]) -> None:
    """Every link ran once, after the one before it, with that one's result."""
    assert sorted(name for name, *_ in found) == sorted(f"{c}-{k}" for c in range(CHAINS) for k in range(LENGTH))
    places = {name: place for place, (name, *_) in enumerate(found)}
    for name, result, _ in found:
        chain, link = map(int, name.split("-"))
        if link:
            assert result == f"{chain}-{link - 1}"
            assert places[f"{chain}-{link - 1}"] < places[name]


@pytest.mark.slow
def test_chains_over_three_databases_run_in_order(shop: Shop) -> None:
    shop.make_cluster()
    with worker(shop):
        shop.run("-c", f"import shop; shop.chains({CHAINS}, {LENGTH})")
        wait_until(lambda: len(done(shop)) == CHAINS * LENGTH, "every link of every chain")
    check_chains(done(shop))
    assert shop.horae("cluster", "check")["cluster"]["well"]


@pytest.mark.slow
@pytest.mark.timeout(400)  # each kill costs a lease and what was taken for delivery, and each worker its start
def test_chains_go_on_when_workers_are_killed_again_and_again(shop: Shop) -> None:
    shop.make_cluster()
    shop.run("-c", f"import shop; shop.chains({CHAINS}, {LENGTH})")
    for _ in range(2):
        before = len(done(shop))
        killed = shop.worker()
        try:
            wait_until(lambda before=before: len(done(shop)) >= before + 2, "some more links")  # type: ignore[misc]
        finally:
            os.kill(killed.pid, signal.SIGKILL)
            killed.wait(60)
    with worker(shop):
        wait_until(lambda: {name for name, *_ in done(shop)} >= _names(), "every link of every chain", within=240)
    # A link whose worker was killed before it could tell of its end has run again; none ran before its parent.
    first = {name: place for place, (name, *_) in reversed(list(enumerate(done(shop))))}
    for chain in range(CHAINS):
        assert [first[f"{chain}-{k}"] for k in range(LENGTH)] == sorted(first[f"{chain}-{k}"] for k in range(LENGTH))


def _names() -> set[str]:
    return {f"{chain}-{link}" for chain in range(CHAINS) for link in range(LENGTH)}


@pytest.mark.slow
def test_the_doctor_names_messages_that_are_not_delivered(shop: Shop) -> None:
    shop.make_cluster()
    shop.run("-c", f"import shop; shop.chains({CHAINS}, 2)")
    listed = shop.horae("cluster", "list")["cluster"]["members"]
    assert sum(each["count"] for member in listed for each in member["undelivered"]) == CHAINS
    for name in ("a", "b", "c"):
        _run_sql(shop, name, "UPDATE horae_messages SET created_at = created_at - 600000000")
    command = [sys.executable, "-m", "horae", "doctor"]
    ended = subprocess.run(command, cwd=shop.folder, env=shop.environment, capture_output=True, text=True, check=False)
    assert "are not delivered" in ended.stdout


def _run_sql(shop: Shop, name: str, sql: str) -> None:
    shop.run("-c", f"import sqlite3; c = sqlite3.connect('{name}.db'); c.execute('{sql}'); c.commit()")
