"""A real server process: it says where it is, answers, ends in order, and refuses to stand open."""

import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from horae import Horae
from horae.actions.access.owners import set_owner
from horae.core.access.owners import OwnerSettings
from tests.cli.conftest import Command, Process
from tests.support.waiting import wait_until

Start = Callable[..., Process]


def test_a_server_says_its_url_answers_and_ends_with_sigterm(horae: Command, start: Start) -> None:
    token = horae("token", "create", "--owner", "alice", "--scopes", "tasks,worker", "--json").json["token"]
    server = start("server", "--port", "0", "--json")
    begun = server.until("started")
    with httpx.Client(base_url=begun["url"], timeout=60) as anybody:
        assert anybody.get("/healthz").json() == {"status": "ok"}
        assert anybody.get("/readyz").status_code == 200
        assert anybody.get("/scheduler/jobs").status_code == 401
        mine = anybody.get("/scheduler/jobs", headers={"Authorization": f"Bearer {token}"})
        assert (mine.status_code, mine.json()["jobs"]) == (200, [])
        assert "server" not in mine.headers

    server.started.send_signal(signal.SIGTERM)
    ended = server.ended()
    events = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0, ended.err
    assert (begun["host"], begun["auth"], begun["ready"]) == ("127.0.0.1", True, True)
    assert [each["event"] for each in events] == ["stopping", "ended"]
    assert events[-1]["requests"] == 4
    lines = [json.loads(line) for line in ended.err.splitlines() if '"horae.access"' in line]
    assert (lines[0]["route"], lines[0]["status"]) == ("/healthz", 200)
    assert lines[-1]["owner"] == "alice"
    assert token not in ended.err


def test_a_server_says_how_to_log_in_to_its_console(horae: Command, start: Start) -> None:
    horae("db", "migrate")
    server = start("server", "--port", "0", "--json")
    begun = server.until("started")
    server.started.send_signal(signal.SIGTERM)

    line = f"console {begun['url']}/console    log in with: HORAE_PORT={begun['port']} horae console link"
    assert line in server.ended().err


def accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


def test_sigterm_lets_a_request_finish_that_is_being_sent(horae: Command, start: Start) -> None:
    """Draining: nothing new is accepted, what was begun is answered."""
    server = start("server", "--port", "0", "--json", "--no-auth")
    begun = server.until("started")
    body = json.dumps({"handler": "a", "payload": {}}).encode()
    head = "POST /scheduler/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", begun["port"]), timeout=60) as half:
        half.sendall(head.encode() + body[:5])
        assert half.recv(65536).startswith(b"HTTP/1.1 100")  # it has begun to read the body
        server.started.send_signal(signal.SIGTERM)
        server.until("stopping")
        wait_until(lambda: not accepts_connections(begun["port"]))
        half.sendall(body[5:])
        answer = half.recv(65536)
    assert answer.startswith(b"HTTP/1.1 201")
    assert server.ended().code == 0
    assert len(horae("job", "list", "--json").json["items"]) == 1


class Sink(ThreadingHTTPServer):
    """Keeps what is posted to it."""

    def __init__(self) -> None:
        self.posted: queue.Queue[dict[str, Any]] = queue.Queue()

        class Keeping(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                self.posted.put(json.loads(handler.rfile.read(int(handler.headers["content-length"]))))
                handler.send_response(204)
                handler.end_headers()

            def log_message(handler, *_: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Keeping)


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("about", ["a job", "an object"])
def test_a_dead_letter_alerts_when_only_servers_run_and_one_message_goes_out(
    horae: Command, start: Start, sink: Sink, environment: Path, monkeypatch: pytest.MonkeyPatch, about: str
) -> None:
    """S0-20: a job, perhaps of a stored object, pulled over HTTP and failed for good, with no worker anywhere."""
    database = f"sqlite:///{environment / 'alerts.db'}"
    monkeypatch.setenv("HORAE_DATABASE_URL", database)
    monkeypatch.setenv("HORAE_ALERT_WEBHOOK_URL", f"http://127.0.0.1:{sink.server_port}/hook")
    horae("db", "migrate")
    with Horae(database) as app:
        set_owner(app.world, "system", OwnerSettings(("127.0.0.1/32",), allow_http=True, ports=(sink.server_port,)))
    servers = [start("server", "--port", "0", "--json", "--no-auth") for _ in range(2)]
    urls = [server.until("started")["url"] for server in servers]
    with httpx.Client(base_url=urls[0], timeout=30) as http:
        if about == "a job":
            job_id = http.post("/scheduler/jobs", json={"handler": "fragile"}).json()["job_id"]
        else:
            made = {"kind": "memory", "content": "Ann likes tea", "id": "mem_tea"}
            job_id = http.post("/governance/objects", json=made).json()["job"]
        http.post("/scheduler/jobs/pull", json={"worker_id": "w1"})
        died = http.post(f"/scheduler/jobs/{job_id}/fail", json={"error": "no route", "final": True}).json()

    result = sink.posted.get(timeout=60)
    for server in servers:
        server.started.send_signal(signal.SIGTERM)
    assert [server.ended().code for server in servers] == [0, 0]

    assert died["status"] == "dead_letter"
    assert (result["type"], result["data"]["job_id"], result["data"]["error"]) == ("job.dead", job_id, "no route")
    assert result["data"].get("object_id") == (None if about == "a job" else "mem_tea")
    assert sink.posted.empty()
    sent = horae("job", "list", "--queue", "alerts", "--json").json["items"]
    assert [job["state"] for job in sent] == ["succeeded"]


def test_without_authentication_it_stays_on_this_machine(horae: Command) -> None:
    refused = horae("server", "--no-auth", "--host", "0.0.0.0", "--port", "0")
    assert refused.code == 4
    assert "horae token create" in refused.err


def test_a_port_that_is_taken_is_said_with_the_way_out(horae: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = horae("server", "--port", str(taken.getsockname()[1]), "--json")
    assert refused.code == 78
    assert "--port" in refused.json["error"]["message"]


def test_an_unknown_address_is_refused(horae: Command) -> None:
    assert horae("server", "--host", "nowhere.invalid").code == 2


def test_a_weak_jwt_secret_is_refused_at_the_start(horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_JWT_SECRET", "secret")
    refused = horae("server", "--port", "0")
    assert refused.code == 78
    assert "openssl rand -hex 32" in refused.err


def test_a_missing_extra_is_named_with_the_command_that_mends_it(environment: Path) -> None:
    program = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from horae.cli.main import main\n"
        "sys.exit(main(['server', '--port', '0']))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=environment, check=False
    )
    assert result.returncode == 78
    assert "pip install 'horae[server]'" in result.stderr


def test_a_store_that_does_not_answer_yet_is_waited_for(environment: Path, start: Start) -> None:
    """C-17: the server starts, says that it is not ready, and becomes so by itself."""
    folder = environment / "later"
    folder.write_text("a file where the database's folder should be")
    server = start("server", "--port", "0", "--json", "--no-auth", "--db", f"sqlite:///{folder}/horae.db")
    begun = server.until("started")
    assert begun["ready"] is False
    with httpx.Client(base_url=begun["url"], timeout=30) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        away = client.get("/scheduler/jobs")
        assert (away.status_code, away.headers["content-type"]) == (503, "application/problem+json")
        folder.unlink()
        folder.mkdir()
        wait_until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/scheduler/jobs").status_code == 200
    server.started.send_signal(signal.SIGINT)
    assert server.ended().code == 0


def test_a_server_knows_the_jobs_of_an_application(project: Path, start: Start) -> None:
    server = start("server", "tasks:app", "--port", "0", "--json", "--no-auth")
    begun = server.until("started")
    assert begun["database"] == "sqlite:///app.db"
    assert httpx.get(f"{begun['url']}/docs", timeout=60).status_code == 200


def test_many_who_never_finish_their_request_keep_nobody_out(start: Start) -> None:
    server = start("server", "--port", "0", "--json", "--no-auth")
    begun = server.until("started")
    slow = [socket.create_connection(("127.0.0.1", begun["port"])) for _ in range(100)]
    for each in slow:
        each.sendall(b"POST /scheduler/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n{")
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(httpx.get(f"{begun['url']}/healthz", timeout=60).status_code))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in slow:
        each.close()
    assert answers == [200] * 5


ADD_TICK = ("schedule", "add", "tick", "--handler", "greet", "--every", "1s")


def fired(horae: Command) -> int:
    """How many fires have a record, whatever became of them."""
    return len(horae("schedule", "history", "tick", "--json").json["items"])


def test_what_a_killed_server_did_besides_answering_another_goes_on_with(horae: Command, start: Start) -> None:
    """No worker runs: schedules are fired by servers alone."""
    assert horae(*ADD_TICK).code == 0
    first, second = (start("server", "--port", "0", "--json") for _ in range(2))
    for server in (first, second):
        server.until("started")
    wait_until(lambda: fired(horae) >= 1)

    first.started.send_signal(signal.SIGKILL)
    first.started.wait(20)
    before = fired(horae)
    wait_until(lambda: fired(horae) > before + 1)

    second.started.send_signal(signal.SIGTERM)
    ended = second.ended()
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err


def test_a_server_without_chores_only_answers(horae: Command, start: Start) -> None:
    assert horae(*ADD_TICK).code == 0
    server = start("server", "--port", "0", "--json", "--no-chores")
    begun = server.until("started")
    due = datetime.now(UTC) + timedelta(seconds=1)
    wait_until(lambda: httpx.get(f"{begun['url']}/readyz", timeout=60).status_code == 200)
    wait_until(lambda: datetime.now(UTC) > due + timedelta(seconds=1))
    server.started.send_signal(signal.SIGTERM)

    assert server.ended().code == 0
    assert fired(horae) == 0
