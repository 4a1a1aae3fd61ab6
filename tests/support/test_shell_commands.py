"""Commands in a shell end, print and die as the ones that they stand for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import shell_commands
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks our programs on Linux only")


def in_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{shell_commands.folder()}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("script", "printed", "code"),
    [
        ("python -c 'import sys; print(sys.argv[1:]); sys.exit(3)' a b", "['a', 'b']\n", 3),
        ("echo 'print(__name__, 6 * 7)' | python -", "__main__ 42\n", 0),
        ("echo 'print(__file__)' > told.py && python told.py", "told.py\n", 0),
        ("python -c 'import os; os.kill(os.getpid(), 9)'; echo $?", "137\n", 0),
        ("horae nonsense 2> /dev/null || echo $?", "2\n", 0),
        ("X=shop python -c 'import os; print(os.environ[\"X\"])'", "shop\n", 0),
    ],
)
def test_a_command_prints_and_ends_as_its_program_does(script: str, printed: str, code: int, tmp_path: Path) -> None:
    answer = in_shell(script, tmp_path)

    assert (answer.stdout, answer.returncode) == (printed, code), answer.stderr


def test_signals_reach_the_program_and_a_killed_command_takes_it_along(tmp_path: Path) -> None:
    waits = "import os, signal, time; print(os.getpid(), flush=True); time.sleep(60)"
    ended = in_shell(
        f"python -c '{waits}' > pid & sleep 0.1; until test -s pid; do sleep 0.1; done; kill $!; wait $!", tmp_path
    )
    killed = in_shell(f"python -c '{waits}' > pid2 & until test -s pid2; do sleep 0.1; done; kill -9 $!", tmp_path)

    assert ended.returncode == 143
    assert killed.returncode == 0
    programs = [Path("/proc") / (tmp_path / file).read_text().strip() for file in ("pid", "pid2")]
    wait_until(lambda: not any(program.exists() for program in programs), "the end of both programs")
