"""The built wheel works for a stranger: in a bare environment, and under strict mypy."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from horae.version import VERSION
from tests.wheel.bare import make_bare_environment

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SHOP = """
from horae import Context, Horae, Retry

app = Horae("sqlite:///shop.db")


@app.job("welcome", queue="mail", retry=Retry(attempts=2))
def welcome(ctx: Context, name: str) -> str:
    return f"Dear {name}"


def later(name: str) -> str:
    enqueued = welcome.using(queue="mail").enqueue(name=name)
    return enqueued.id


if __name__ == "__main__":
    print(later("Ada"))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the build back end of this environment, so that no network is needed."""
    folder = tmp_path_factory.mktemp("dist")
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, "-m", *build], check=True)
    [built] = folder.glob("horae-*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bare_environment(tmp_path_factory.mktemp("bare") / "venv", wheel, PROJECT["dependencies"])


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def run(program: Path, *arguments: str, folder: Path) -> str:
    """Run a program of the bare environment, with nothing of ours around it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HORAE_", "PYTHON"))}
    command = [str(program), *arguments]
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_its_types_and_its_migrations(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert wheel.name == f"horae-{VERSION}-py3-none-any.whl"
    assert "horae/py.typed" in names
    assert "horae/stores/migrations/versions/0001_baseline.py" in names
    assert {name.split("/")[0] for name in names} == {"horae", f"horae-{VERSION}.dist-info"}


def test_the_environment_is_bare(programs: Path, tmp_path: Path) -> None:
    tools = ["pytest", "mypy", "fastapi", "httpx", "psycopg"]
    look = f"from importlib.util import find_spec; print([name for name in {tools} if find_spec(name)])"

    assert run(programs / "python", "-c", look, folder=tmp_path) == "[]\n"


def test_the_command_says_its_version(programs: Path, tmp_path: Path) -> None:
    assert run(programs / "horae", "--version", folder=tmp_path) == f"horae {VERSION}\n"


def test_a_job_is_enqueued_and_run_on_sqlite(programs: Path, shop: Path) -> None:
    job = run(programs / "python", "shop.py", folder=shop).strip()
    run(programs / "horae", "worker", "shop:app", "--until-empty", folder=shop)

    shown = run(programs / "horae", "job", "show", job, "--db", "sqlite:///shop.db", folder=shop)

    assert shown.split()[:3] == [job, "welcome", "succeeded"]
    assert "Dear Ada" in shown


def test_what_the_extra_client_is_for_says_so(programs: Path, tmp_path: Path) -> None:
    ask = "import horae\ntry:\n    horae.Client('http://localhost')\nexcept Exception as problem:\n    print(problem)"

    assert "horae[client]" in run(programs / "python", "-c", ask, folder=tmp_path)


def test_a_users_program_passes_strict_mypy(programs: Path, shop: Path) -> None:
    python = f"--python-executable={programs / 'python'}"

    answer = run(Path(sys.executable), "-m", "mypy", "--strict", "--config-file=", python, "shop.py", folder=shop)

    assert answer.startswith("Success")


def test_strict_mypy_finds_a_wrong_argument(programs: Path, shop: Path) -> None:
    (shop / "wrong.py").write_text("from shop import welcome\n\nwelcome.enqueue(name=1)\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--python-executable={programs / 'python'}"]

    done = subprocess.run([*command, "wrong.py"], cwd=shop, capture_output=True, text=True, check=False)

    assert "[arg-type]" in done.stdout
