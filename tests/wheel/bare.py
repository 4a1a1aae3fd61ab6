"""A virtual environment that holds a wheel and what the wheel says it needs, made without a network.

The requirements are linked from the environment that runs the tests, following the metadata of each distribution; what
nobody requires is not there. So an import of ours that no dependency declares fails as it would for a user.
"""

import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


def required(names: list[str]) -> dict[str, Distribution]:
    """Return the named distributions and all that they require, by name."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        if wanted.name in found:
            continue
        found[wanted.name] = distribution(wanted.name)
        for line in found[wanted.name].requires or ():
            further = Requirement(line)
            if further.marker is None or any(
                further.marker.evaluate({"extra": each}) for each in (wanted.extras or {""})
            ):
                waiting.append(further)
    return found


def link(found: Distribution, site: Path) -> None:
    """Link the packages and modules of an installed distribution into another folder."""
    for name in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
        source = Path(str(found.locate_file(name)))
        if not (site / name).exists():
            (site / name).symlink_to(source, target_is_directory=source.is_dir())


def make_bare_environment(place: Path, wheel: Path, needs: list[str]) -> Path:
    """Make a virtual environment at *place* with the wheel and its needs, and return its folder of programs."""
    venv.create(place, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(place), "platbase": str(place)}))
    for each in required(needs).values():
        link(each, site)
    python = place / "bin" / "python"
    install = ["pip", "--python", str(python), "--quiet", "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", *install], check=True)
    return place / "bin"
