"""Where tests put their files: in memory, where the machine has enough of it.

Most tests commit to a SQLite file of their own, and each commit waits for the disk. A file in memory keeps every
promise that a test can look at: a killed process loses nothing there either, only a machine without power would.
"""

import os
import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")
LEAST = 4 << 30  # bytes that are free; the files of one run take a tenth of it
ROOT = "PYTEST_DEBUG_TEMPROOT"  # the variable by which pytest is told where temporary directories go


def use_memory() -> None:
    """Let pytest make its temporary directories in memory, unless the caller chose a place."""
    if is_fit(MEMORY):
        os.environ.setdefault(ROOT, str(MEMORY))


def is_fit(folder: Path) -> bool:
    """Whether files can be made there, programs can be run from it, and enough of it is free."""
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC and shutil.disk_usage(folder).free >= LEAST
