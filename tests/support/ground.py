"""The ground servers stand on: a temporary directory, an unprivileged user, and a watchdog that cleans up after us.

The watchdog is a process of its own (`watchdog.py`), so that a `kill -9` of the tests still ends the servers.
"""

import atexit
import contextlib
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tests.support import scratch
from tests.support.programs import ServerMissing


class Ground:
    """Where the servers of this process live. Nothing is made before it is needed."""

    def __init__(self, at_exit: Callable[[], None], *, in_memory: bool = False) -> None:
        self._at_exit = at_exit
        self._in_memory = in_memory and scratch.is_fit(scratch.MEMORY)
        self._home: Path | None = None
        self._memory: Path | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._templates: dict[str, Path] = {}

    @property
    def home(self) -> Path:
        """Return the temporary directory of all servers; made together with the watchdog that removes it."""
        if self._home is None:
            self._home = self._make_home(None)
            watchdog = [sys.executable, "-S", str(Path(__file__).with_name("watchdog.py")), str(os.getpid())]
            self._watchdog = subprocess.Popen(watchdog, stdin=subprocess.PIPE, start_new_session=True)
            self._tell_watchdog(f"remove {self._home}")
            atexit.register(self._at_exit)
        return self._home

    @property
    def memory(self) -> Path:
        """Return where servers live that need not keep anything: in memory where that is allowed, else at home.

        There, making or emptying a database costs a server a third of the work, and no disk has to follow.
        """
        home = self.home
        if not self._in_memory:
            return home
        if self._memory is None:
            self._memory = self._make_home(scratch.MEMORY)
            self._tell_watchdog(f"remove {self._memory}")
        return self._memory

    def _make_home(self, folder: Path | None) -> Path:
        home = Path(tempfile.mkdtemp(prefix="horae-", dir=folder))
        home.chmod(0o711)  # the servers' users must be able to reach their own directories in it
        return home

    def close(self) -> None:
        """Let the watchdog end what is left, remove the directory, and leave."""
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
            self._watchdog.wait()
        self._watchdog = self._home = self._memory = None
        self._templates.clear()
        atexit.unregister(self._at_exit)

    def make_directory(self, path: Path, user: str) -> None:
        path.mkdir(mode=0o700)
        if os.geteuid() == 0:
            account = unprivileged(user)
            os.chown(path, account.pw_uid, account.pw_gid)

    def template(self, user: str, initialise: Callable[[Path], None]) -> Path:
        """Return an initialised data directory, made once for each kind of server and copied for each new one."""
        if user not in self._templates:
            place = self.memory / f"{user}-template"
            self.make_directory(place, user)
            initialise(place / "data")
            self._templates[user] = place / "data"
        return self._templates[user]

    def popen(self, command: Sequence[str | Path], user: str, cwd: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own, so that Ctrl-C reaches us first, and never as root."""
        identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = unprivileged(user)
            identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(cwd), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **identity,
        )

    def watch(self, pid: int) -> None:
        self._tell_watchdog(f"watch {pid}")

    def forget(self, pid: int) -> None:
        self._tell_watchdog(f"forget {pid}")

    def _tell_watchdog(self, line: str) -> None:
        assert self._watchdog is not None
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.write(os.fsencode(line) + b"\n")
        self._watchdog.stdin.flush()


def unprivileged(preferred: str) -> pwd.struct_passwd:
    """Return the account a server runs as when we are root: its package's own, otherwise ``nobody``."""
    for name in (preferred, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerMissing(f"there is neither a user {preferred!r} nor 'nobody' to run a server as; root may not")
