"""The whole way from the command line: make a cluster, serve it, enqueue for many owners, lose a worker."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

OWNERS = 45
SHOP = """
import os, time
from pathlib import Path
from horae import Horae

app = Horae()
DONE = Path(os.environ["SHOP_DONE"])


@app.job("mail", tenants=True)
def mail(to: str) -> None:
    with DONE.open("a") as out:
        out.write(f"{to}\\n")
    time.sleep(float(os.environ.get("SHOP_TAKES", "0")))


def send(count: int) -> None:
    for index in range(count):
        mail.using(owner=f"owner-{index}").enqueue(to=f"owner-{index}")
    app.close()
"""


class Shop:
    """A shop in a folder, with as many SQLite files as its cluster has databases."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.done = folder, folder / "done.txt"
        (folder / "shop.py").write_text(SHOP)
        self.environment = {
            **os.environ, "HORAE_DATABASE_URL": f"sqlite:///{folder / 'a.db'}", "SHOP_DONE": str(self.done),
        }  # fmt: skip

    def run(self, *command: str) -> str:
        ended = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def horae(self, *command: str) -> Any:
        return json.loads(self.run("-m", "horae", *command, "--json"))

    def worker(self, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / "worker.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "horae", "worker", "shop:app", "--lease", "2s"],
                cwd=self.folder, env={**self.environment, **environment}, stdout=log, stderr=log,
            )  # fmt: skip

    def make_cluster(self) -> None:
        self.horae("cluster", "init")
        for name in ("b", "c"):
            self.horae("cluster", "add", name, f"sqlite:///{self.folder / f'{name}.db'}")

    def sent(self) -> Counter[str]:
        return Counter(self.done.read_text().split()) if self.done.exists() else Counter()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.slow
def test_jobs_of_many_owners_run_once_in_three_databases(shop: Shop) -> None:
    shop.make_cluster()
    listed = shop.horae("cluster", "list")["cluster"]
    assert [each["name"] for each in listed["members"]] == ["first", "b", "c"]
    assert sum(each["vshards"] for each in listed["members"]) == 4096
    assert "password" not in json.dumps(listed)
    worker = shop.worker()
    try:
        shop.run("-c", f"import shop; shop.send({OWNERS})")
        wait_until(lambda: len(shop.sent()) == OWNERS, "every job")
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    assert set(shop.sent().values()) == {1}
    assert shop.horae("cluster", "check")["cluster"]["well"]


@pytest.mark.slow
def test_the_jobs_of_a_killed_worker_run_again_in_every_database(shop: Shop) -> None:
    shop.make_cluster()
    first = shop.worker(SHOP_TAKES="60")
    try:
        shop.run("-c", f"import shop; shop.send({OWNERS})")
        wait_until(lambda: len(shop.sent()) == OWNERS, "every job")
    finally:
        first.kill()
        first.wait(60)
    second = shop.worker()
    try:
        wait_until(lambda: set(shop.sent().values()) == {2}, "a second attempt at each")
    finally:
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
    assert len(shop.sent()) == OWNERS


@pytest.mark.slow
def test_a_database_without_a_cluster_is_told_how_to_make_one(shop: Shop) -> None:
    shop.run("-m", "horae", "db", "migrate")
    command = [sys.executable, "-m", "horae", "cluster", "list"]
    ended = subprocess.run(command, cwd=shop.folder, env=shop.environment, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "horae cluster init" in ended.stderr
