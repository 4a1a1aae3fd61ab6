"""Small file systems that only one command sees, for tests of full disks."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import needs
from tests.support import programs


def on_small_disk(folder: Path, size: str, script: str) -> list[str | Path]:
    """Return the command that runs a shell script while *folder* is a file system of this size; skip where forbidden.

    Only the command and its children see it: they have a mount namespace of their own. Somebody who is not root has it
    inside a user namespace, which some kernels and containers forbid; nothing that could be installed would help there.
    """
    unshare = [needs(programs.UNSHARE), *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--mount"]
    mount = f"mount -t tmpfs -o size={size} tmpfs {folder}"
    tried = subprocess.run([*unshare, "sh", "-c", mount], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this kernel lets nobody mount here: {tried.stderr.strip()}")
    return [*unshare, "sh", "-c", f"{mount} && {script}"]
