"""A Dask and a Ray cluster of this machine: a scheduler or head and nodes, each a process group that can be killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent


class Node:
    """A process with all that it has started."""

    def __init__(self, log: Path, *command: str, **environment: str) -> None:
        self.log = log
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with log.open("w") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, "PYTHONPATH": paths, **environment}, cwd=log.parent,
            )  # fmt: skip

    def says(self, pattern: str) -> re.Match[str]:
        """Wait for a line of its log."""

        def look() -> re.Match[str] | None:
            text = self.log.read_text(errors="replace")
            assert self.process.poll() is None, text
            return re.search(pattern, text)

        found: re.Match[str] = wait_until(look, f"{pattern!r} in {self.log}")
        return found

    def kill(self) -> None:
        """Kill the whole group, as a machine dies."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)


class Dask:
    """A scheduler and the means to start workers."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack, self._count = folder, stack, 0
        self.scheduler = self._start("scheduler", "scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard")
        self.address = self.scheduler.says(r"Scheduler at:\s+(tcp://\S+)")[1]

    def worker(self) -> Node:
        """Start a Dask worker with two threads; without a nanny, which would start it again."""
        self._count += 1
        name = f"worker-{self._count}"
        node = self._start(
            name, "worker", self.address, "--nthreads", "2", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1",
            "--memory-limit", "0", "--local-directory", str(self._folder),
        )  # fmt: skip
        node.says("Registered to")
        return node

    def _start(self, name: str, *arguments: str) -> Node:
        # In silence for two seconds a worker counts as lost; by default it takes minutes.
        quickly = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10 s"}
        node = Node(self._folder / f"{name}.log", sys.executable, "-m", "dask", *arguments, **quickly)
        self._stack.callback(node.kill)
        return node


@contextmanager
def dask_cluster(folder: Path) -> Iterator[Dask]:
    with ExitStack() as stack:
        yield Dask(folder, stack)


class Ray:
    """A head without processors of its own, and the means to start nodes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack, self._count = folder, stack, 0
        self.head = self._start("head", "--head", "--port", "0", "--num-cpus", "0", "--include-dashboard", "false")
        self.address = self.head.says(r"--address='(\S+?)'")[1]

    def node(self, cpus: int = 2) -> Node:
        self._count += 1
        node = self._start(f"node-{self._count}", "--address", self.address, "--num-cpus", str(cpus))
        node.says("Ray runtime started")
        return node

    def _start(self, name: str, *arguments: str) -> Node:
        node = Node(
            self._folder / f"{name}.log", str(TOOLS / "ray"), "start", "--block", "--disable-usage-stats",
            "--node-ip-address", "127.0.0.1", "--object-store-memory", "80000000", *arguments,
            # A node that is silent for three seconds counts as lost; by default it takes half a minute.
            RAY_health_check_initial_delay_ms="0", RAY_health_check_period_ms="500",
            RAY_health_check_failure_threshold="5", RAY_DISABLE_IMPORT_WARNING="1",
        )  # fmt: skip
        self._stack.callback(node.kill)
        return node


@contextmanager
def ray_cluster(name: str = "main") -> Iterator[Ray]:
    folder = Path(tempfile.gettempdir()) / f"horae-ray-{os.getpid()}-{name}"  # Ray's sockets need short paths
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        stack.callback(lambda: shutil.rmtree(folder, ignore_errors=True))
        yield Ray(folder, stack)
