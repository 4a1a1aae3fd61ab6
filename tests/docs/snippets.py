"""Code blocks of a page, and how they are run.

A page is one story: its blocks run in order, in one empty folder.

* ``bash`` runs in a shell; what it exports stays for the next block.
* ``python`` whose first line is a comment with a file name is written to that file; any other is run.
* ``text`` after ``<!-- prints -->`` is what the blocks since the last such block print; ``…`` stands for anything.
* ``<!-- not run: why -->`` before a block leaves it out.

Other languages, and ``text`` without a mark, are only shown.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support import shell_commands

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)
FILE = re.compile(r"# ([\w/]+\.\w+)\n")
PLACEHOLDERS = {
    "postgres": "postgresql://horae:secret@localhost/horae",
    "mysql": "mysql://horae:secret@localhost/horae",
}


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    mark: str
    line: int


def pages() -> list[Path]:
    """Return every page with something to run or to print."""
    found = [
        ROOT / "README.md",
        ROOT / "README.zh-CN.md",
        ROOT / "ARCHITECTURE.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    return [page for page in found if "decisions" not in page.parts]


def original(page: Path) -> Path | None:
    """Return the English page that a page of ``docs/`` translates: ``page.md`` of ``page.zh.md``."""
    return page.with_name(page.name.replace(".zh.md", ".md")) if page.name.endswith(".zh.md") else None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(each["language"], each["text"], each["mark"] or "", text.count("\n", 0, each.start()) + 1)
        for each in BLOCK.finditer(text)
    ]


def runs(block: Block) -> bool:
    return block.language in ("bash", "python") and not block.mark.startswith("not run")


class Teller:
    """Runs the blocks of one page in one folder."""

    def __init__(self, folder: Path, urls: dict[str, str]) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        self.exports = folder / "exports.sh"
        self.exports.touch()
        self.urls = urls
        self.printed = ""

    def tell(self, block: Block) -> None:
        text = block.text
        for name, url in self.urls.items():
            text = text.replace(PLACEHOLDERS[name], url)
        if block.language == "text" and block.mark == "prints":
            assert matches(text, self.printed), f"line {block.line} shows\n{text}\nbut it printed\n{self.printed}"
            self.printed = ""
        elif runs(block):
            named = FILE.match(text) if block.language == "python" else None
            if named is not None:
                self._write(named[1], text)
            else:
                self._run(text if block.language == "bash" else f"python - <<'END'\n{text}END\n", block.line)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def _run(self, text: str, line: int) -> None:
        script = f"set -eu\nsource {self.exports}\n{text}\nexport -p > {self.exports}\n"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
        commands = shell_commands.folder() if sys.platform == "linux" else Path(sys.executable).parent
        clean["PATH"] = os.pathsep.join([str(commands), str(Path(sys.executable).parent), clean["PATH"]])
        answer = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=clean, capture_output=True, text=True, timeout=90, check=False
        )
        assert answer.returncode == 0, f"line {line} ended with {answer.returncode}:\n{answer.stdout}\n{answer.stderr}"
        self.printed += answer.stdout


def matches(shown: str, printed: str) -> bool:
    """Return whether the output is as the page says; … stands for anything, spaces at the ends of lines for nothing."""
    pattern = re.escape("\n".join(line.rstrip() for line in shown.strip().splitlines())).replace("…", r"[\s\S]*?")
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.strip().splitlines())) is not None
