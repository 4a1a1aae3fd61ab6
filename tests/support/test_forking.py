"""A program that is forked looks like one that was started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import forking

STARTED = [sys.executable, "-B", "-m", "horae"]  # an option of the interpreter: not forked
FORKED = [sys.executable, "-m", "horae"]
CASES = (["--version"], ["nonsense"], ["job", "list", "--json"], ["check", "nowhere:app"], ["schedule", "next", "* *"])

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks our programs on Linux only")


@pytest.mark.parametrize("arguments", CASES, ids=" ".join)
def test_a_forked_program_says_and_returns_what_a_started_one_does(arguments: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "HORAE_DATABASE_URL": f"sqlite:///{tmp_path / 'jobs.db'}"}
    started, forked = (
        subprocess.run([*how, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        for how in (STARTED, FORKED)
    )

    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_a_forked_program_is_a_child_of_the_test_and_dies_by_its_signals(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    for number in (signal.SIGKILL, signal.SIGTERM):
        command = [*FORKED, "server", "--no-auth", "--port", "0", "--json", "--db", url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path) as server:
            assert server.stdout is not None
            assert b"started" in server.stdout.readline()
            parent = int(Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[1])
            assert parent == os.getpid()
            server.send_signal(number)
            assert server.wait(60) == (-signal.SIGKILL if number == signal.SIGKILL else 0)


def test_the_process_that_forks_is_replaced_when_it_was_killed() -> None:
    subprocess.run([*FORKED, "--version"], check=True, capture_output=True)
    killed = forking.pid_of_forker()
    assert killed is not None
    os.kill(killed, signal.SIGKILL)

    answer = subprocess.run([*FORKED, "--version"], check=True, capture_output=True, text=True)

    assert answer.stdout.startswith("horae ")
    assert forking.pid_of_forker() not in (None, killed)
