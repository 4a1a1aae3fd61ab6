"""Check the JavaScript client with TypeScript: ``python -m scripts.javascript_types``, a part of ``make lint``.

``horae.js`` must do what ``horae.d.ts`` promises, and ``tests/console/horae_client.ts`` says what a caller may write.
TypeScript is a program of the machine (on Debian ``node-typescript``); it is installed where that is allowed. Where it
is missing this says so, and with ``CI=true`` it fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import programs

ROOT = Path(__file__).parent.parent
FILES = ("src/horae/console/assets/horae.js", "tests/console/horae_client.ts")
OPTIONS = (
    "--noEmit", "--strict", "--noUncheckedIndexedAccess", "--allowJs", "--checkJs", "--target", "es2022",
    "--module", "es2022", "--moduleResolution", "node", "--lib", "es2022,dom,dom.iterable",
)  # fmt: skip


def check(root: Path = ROOT) -> int:
    """Return the exit code of TypeScript over the client; 0 where it is missing and need not be there."""
    programs.install_missing([programs.TYPESCRIPT])
    try:
        compiler = programs.find(programs.TYPESCRIPT)
    except programs.ServerMissing as missing:
        print(f"The JavaScript client was not checked: {missing}", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    return subprocess.run([compiler, *OPTIONS, *FILES], cwd=root, check=False).returncode


if __name__ == "__main__":
    sys.exit(check())
