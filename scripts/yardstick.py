"""Measure how many files a change touches: ``python -m scripts.yardstick``.

Two example patches under ``scripts/yardstick/`` are applied to a copy of the tree: a field of a job that is set at
enqueue, stored, returned and filtered, and a new verb. Each brings a test of its own, which is run over all four
senders, so that what is counted works. More files under ``src/`` than allowed is a failure: make the tree shorter.

A patch that no longer applies is adapted by hand: apply it with ``git apply --reject``, mend it, and write it again
with ``git diff -U1``.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATCHES = ROOT / "scripts" / "yardstick"
MOST = {"field": 6, "verb": 5}  # files under src/, a migration included
TEST = "tests/api/test_yardstick.py"
MIGRATIONS = Path("src/horae/stores/migrations/versions")


def touched(patch: str) -> list[str]:
    """Return the files under ``src/`` that a patch changes or adds."""
    return re.findall(r"^\+\+\+ b/(src/\S+)$", patch, re.M)


def copied(folder: Path) -> Path:
    """Copy what the tests of a patch need, with what is compiled: only what the patch changes is compiled anew."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def chain_migration(tree: Path) -> None:
    """Let the migration of a patch follow the newest one, whichever that is today."""
    names = sorted(file.stem for file in (tree / MIGRATIONS).glob("[0-9]*.py"))
    newest = [name for name in names if "yardstick" not in name][-1]
    for file in (tree / MIGRATIONS).glob("*_yardstick.py"):
        file.write_text(file.read_text(encoding="utf-8").replace("NEWEST", newest), encoding="utf-8")


def works(patch: Path) -> bool:
    """Apply a patch to a copy of the tree and run its test there."""
    with tempfile.TemporaryDirectory(prefix="horae-yardstick-") as folder:
        tree = copied(Path(folder))
        apply = ["git", "apply", "-C1", "-p1", str(patch)]
        if subprocess.run(
            apply, cwd=tree, check=False, env={**os.environ, "GIT_CEILING_DIRECTORIES": folder}
        ).returncode:
            return False
        chain_migration(tree)
        test = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", TEST]
        return subprocess.run(test, cwd=tree, check=False, env={**os.environ, "PYTHONPATH": "src"}).returncode == 0


def main() -> int:
    failures = 0
    for name, most in MOST.items():
        patch = PATCHES / f"{name}.patch"
        files = touched(patch.read_text(encoding="utf-8"))
        is_good = works(patch) and len(files) <= most
        print(f"{'ok' if is_good else 'FAILED'}: a {name} touches {len(files)} of at most {most} files under src/")
        print("".join(f"  {file}\n" for file in files), end="")
        failures += not is_good
    return failures


if __name__ == "__main__":
    sys.exit(main())
