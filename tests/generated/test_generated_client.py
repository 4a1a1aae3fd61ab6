"""A client that a generator makes of the committed description can do what the description says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT
from tests.support.servers import in_ci
from tests.support.serving import serving

DESCRIPTION = ROOT / "docs" / "reference" / "openapi.json"
WALK = Path(__file__).with_name("walk.py")
GENERATOR = "openapi-python-client"
LEFT_OUT = ("Unable to process", "WARNING parsing")  # what the generator says of what it could not read


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)


def may_go_without(said: str, *, is_ci: bool) -> bool:
    """Return whether to go without the generator; with ``CI=true`` what is missing is a failure."""
    return "No matching distribution found" in said and not is_ci


def test_without_the_generator_only_a_contributors_machine_skips() -> None:
    said = "ERROR: No matching distribution found for openapi-python-client"

    assert may_go_without(said, is_ci=False)
    assert not may_go_without(said, is_ci=True)
    assert not may_go_without("ERROR: No space left on device", is_ci=False)


@pytest.mark.slow
@pytest.mark.timeout(600)  # it installs the generator: half a minute on an idle machine
def test_a_generated_client_walks_through_our_doors_and_the_documents(tmp_path: Path) -> None:
    """The generator has an environment of its own: it wants an older Typer than we do."""
    assert run(sys.executable, "-m", "venv", "--without-pip", "own", folder=tmp_path).returncode == 0
    python = tmp_path / "own" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    installed = run(*pip, "install", "--quiet", "--no-compile", GENERATOR, folder=tmp_path)
    if may_go_without(installed.stderr, is_ci=in_ci()):
        pytest.skip(f"no package index here has {GENERATOR}")
    assert installed.returncode == 0, installed.stderr
    generate = tmp_path / "own" / "bin" / GENERATOR
    made = run(
        generate, "generate", "--path", DESCRIPTION, "--meta", "none", "--output-path", "horae_generated",
        folder=tmp_path,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    assert [said for said in LEFT_OUT if said in made.stdout + made.stderr] == [], made.stdout + made.stderr
    with serving(f"sqlite:///{tmp_path / 'horae.db'}") as served:
        walked = run(python, "-c", "import runpy, sys; sys.path.insert(0, '.'); sys.argv = sys.argv[1:]; "
                     "runpy.run_path(sys.argv[0], run_name='__main__')",
                     WALK, served.url, served.token("system", "admin"), folder=tmp_path)  # fmt: skip
    assert walked.stdout == "walked\n", walked.stderr
