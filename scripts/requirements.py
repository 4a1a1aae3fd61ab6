"""Find where requirements are cited, and write the test files into docs/contributing/requirements.md.

The page is edited by hand, except the last column of its tables: `make docs` writes that from the citations, so that it
cannot go stale. `tests/docs/test_requirements.py` fails when a cited code has no line.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "contributing" / "requirements.md"
CODE = re.compile(r"\b(?:S[0-4]|C)-\d+\b")
RANGE = re.compile(r"\b(S[0-4]|C)-(\d+) ?(?:…|to) ?\1-(\d+)\b")  # S0-7…S0-9, S0-7 to S0-9
ROW = re.compile(r"^\| ((?:S[0-4]|C)-\d+) \| (.*?) \| (.*?) \|$", re.M)
NOT_NAMED = "no test names it"
CITING = ("src", "tests", "docs", "scripts", "benchmarks", "examples", "deploy")
TEXTS = {".py", ".md", ".sh", ".service", ".txt", ".toml", ".yml"}


def codes(text: str) -> set[str]:
    """Return every code that *text* cites; a range cites all between its ends."""
    between = {
        f"{document}-{number}"
        for document, first, last in RANGE.findall(text)
        for number in range(int(first), int(last) + 1)
    }
    return between | set(CODE.findall(text))


def citations() -> Iterator[tuple[Path, set[str]]]:
    """Return every file that cites a code, with its codes; paths are relative to the root."""
    for folder in CITING:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in TEXTS and file != PAGE and (found := codes(file.read_text(encoding="utf-8"))):
                yield file.relative_to(ROOT), found


def is_test(file: Path) -> bool:
    """Tell whether a file tests something: our tests, and the suite that a user's own store passes."""
    return file.parts[0] == "tests" or file.parts[:3] == ("src", "horae", "testing")


def defined(text: str) -> list[str]:
    """Return the codes that a page defines, in its order."""
    return [code for code, _, _ in ROW.findall(text)]


def requirements_page() -> str:
    """Return the page as it stands, with the files that test each requirement as of now."""
    tested: dict[str, list[str]] = {}
    for file, found in citations():
        if is_test(file):
            for code in found:
                tested.setdefault(code, []).append(f"`{file.as_posix().removeprefix('tests/')}`")

    def row(line: re.Match[str]) -> str:
        return f"| {line[1]} | {line[2]} | {', '.join(tested.get(line[1], [NOT_NAMED]))} |"

    return ROW.sub(row, PAGE.read_text(encoding="utf-8"))
