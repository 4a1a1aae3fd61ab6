"""Print what Horae requires with some extras, one line each: `python scripts/requirements.py client,server`."""

import sys
import tomllib
from pathlib import Path


def requirements(extras: list[str]) -> list[str]:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [project["optional-dependencies"][extra] for extra in extras]
    return sorted({each for listed in (project["dependencies"], *named) for each in listed})


if __name__ == "__main__":
    print(*requirements(sys.argv[1].split(",")), sep="\n")
