"""Let the interpreter that runs this import Horae from the sources, with a command `horae` beside it.

`pip install -e .` does the same and more, and replaces it, but first it installs a builder.
"""

import sys
import sysconfig
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"
COMMAND = """#!{python}
import sys

from horae.cli.start import main

sys.exit(main())
"""


def main() -> int:
    (Path(sysconfig.get_path("purelib")) / "horae.pth").write_text(f"{SOURCES}\n", encoding="utf-8")
    command = Path(sysconfig.get_path("scripts")) / "horae"
    command.write_text(COMMAND.format(python=sys.executable), encoding="utf-8")
    command.chmod(0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main())
