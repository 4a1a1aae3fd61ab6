"""A running server on a disk that fills up, and on a database that goes away: it says so, and goes on by itself."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Process
from tests.support.mounting import on_small_disk
from tests.support.servers import PostgresServer
from tests.support.waiting import wait_until

LARGE = {"handler": "work", "payload": {"ballast": "x" * 20_000}}
SMALL = {"handler": "work"}


class SmallDisk(Process):
    """A server whose database is on a file system of a few mebibytes that only it sees."""

    def __init__(self, folder: Path) -> None:
        disk = folder / "disk"
        disk.mkdir()
        server = f"{sys.executable} -m horae server --no-auth --port 0 --json --db sqlite:///{disk}/horae.db"
        fill = f"head -c 1000000 /dev/zero > {disk}/ballast"
        self.started = subprocess.Popen(
            on_small_disk(disk, "4m", f"{fill} && exec {server}"),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.ballast = Path(f"/proc/{self.started.pid}/root{disk}/ballast")


@pytest.fixture
def small_disk(environment: Path) -> Iterator[SmallDisk]:
    server = SmallDisk(environment)
    yield server
    server.started.send_signal(signal.SIGKILL)
    server.started.communicate()


def is_problem(answer: httpx.Response, status: int, code: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code
    assert int(answer.headers["retry-after"]) > 0


def test_a_full_disk_answers_507_and_all_is_well_when_there_is_room_again(small_disk: SmallDisk) -> None:
    """I1: what was accepted before is there, what was refused is not."""
    with httpx.Client(base_url=small_disk.until("started")["url"], timeout=30) as client:
        answers = [client.post("/scheduler/jobs", json=LARGE)]
        while answers[-1].status_code == 201 and len(answers) < 1000:
            answers.append(client.post("/scheduler/jobs", json=LARGE))
        is_problem(answers[-1], 507, "store_full")
        accepted = [answer.json()["job_id"] for answer in answers[:-1]]
        assert client.get("/healthz").status_code == 200
        assert client.get(f"/scheduler/jobs/{accepted[0]}").status_code == 200, "looking needs no room"

        small_disk.ballast.unlink()

        again = client.post("/scheduler/jobs", json=LARGE)
        assert again.status_code == 201, again.text
        assert all(client.get(f"/scheduler/jobs/{job_id}").status_code == 200 for job_id in accepted)


@pytest.mark.server
def test_a_database_that_goes_away_answers_503_and_all_is_well_when_it_is_back(
    environment: Path, own_server: Callable[..., PostgresServer], start: Callable[..., Process]
) -> None:
    database = own_server(PostgresServer, durable=True)
    url = database.create_database()
    subprocess.run([sys.executable, "-m", "horae", "db", "migrate", "--db", url], check=True, capture_output=True)
    server = start("server", "--no-auth", "--port", "0", "--json", "--db", url)
    with httpx.Client(base_url=server.until("started")["url"], timeout=30) as client:
        kept = client.post("/scheduler/jobs", json=SMALL).json()["job_id"]
        database.stop("immediate")

        is_problem(client.post("/scheduler/jobs", json=SMALL), 503, "store_unavailable")
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503

        database.start()
        wait_until(lambda: client.post("/scheduler/jobs", json=SMALL).status_code == 201)
        assert client.get(f"/scheduler/jobs/{kept}").status_code == 200
        wait_until(lambda: client.get("/readyz").status_code == 200)
