"""A public name, an operation or a model changes only with a new line in the changelog."""

import json
import re
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from scripts.announcements import (
    Announced,
    changes,
    digest,
    forms,
    missing_lines,
    read_record,
    unannounced,
    unreleased_section,
    updated,
)  # fmt: skip
from scripts.description import description, digests
from scripts.public_names import listing
from tests.docs.snippets import ROOT

OLD = "- `f` is new.\n"
RECORD = {"horae.f": Announced("1", digest(OLD.strip())), "horae.Box.get": Announced("1", "-")}
NOW = {"horae.f": "1", "horae.Box.get": "1"}


def test_every_change_has_its_line_in_the_changelog() -> None:
    assert missing_lines() == ""
    assert changes(read_record(), forms()) == set(), "run `make docs` and commit the result"


def test_no_name_can_change_without_a_new_line() -> None:
    record, section = read_record(), unreleased_section()

    assert len(record) > 1000
    for now in (dict.fromkeys(record, "changed"), {}):  # a line since the last `make docs` may name a few of them
        assert len(unannounced(record, now, section)) > 0.95 * len(record)


@pytest.mark.parametrize("name", ["Job", "JobRequest", "get_job", "list_jobs"])
def test_a_changed_model_or_operation_needs_a_line(name: str) -> None:
    document: dict[str, Any] = deepcopy(json.loads(description()))
    parts = {each["operationId"]: each for path in document["paths"].values() for each in path.values()}
    (parts | document["components"]["schemas"])[name]["x-more"] = 1
    now = forms() | {each: form[:8] for each, form in digests(document).items()}

    assert unannounced(read_record(), now, unreleased_section()) == [name]
    assert unannounced(read_record(), now, f"{unreleased_section()}- `{name}` takes more.\n") == []


@pytest.mark.parametrize(
    "name", ["horae.Horae.enqueue_many", "horae.Job.key", "horae.adapters.langgraph.HoraeSaver.put"]
)
def test_a_changed_signature_needs_a_line(name: str) -> None:
    line = next(line for line in listing().splitlines() if re.match(rf"{re.escape(name)}\b", line))
    now = forms() | {name: digest(f"{line} changed")}
    owner, member = name.split(".")[-2:]

    assert unannounced(read_record(), now, unreleased_section()) == [name]
    assert unannounced(read_record(), now, f"{unreleased_section()}- `{member}` takes more.\n") == [name]
    assert unannounced(read_record(), now, f"{unreleased_section()}- `{owner}.{member}` takes more.\n") == []


@pytest.mark.parametrize(
    ("now", "said", "missing"),
    [
        (NOW, OLD, []),
        (NOW, "", []),
        (NOW | {"horae.f": "2"}, OLD, ["horae.f"]),
        (NOW | {"horae.f": "2"}, "", ["horae.f"]),
        (NOW | {"horae.f": "2"}, f"{OLD}- `f` takes `b`.\n", []),
        (NOW | {"horae.f": "2"}, f"{OLD}- f takes b.\n", ["horae.f"]),
        (NOW | {"horae.f": "2"}, "- `f(a, b)` is new.\n", []),
        (NOW | {"horae.Box.get": "2"}, "- `get` of another.\n- `Box` is wide.\n", ["horae.Box.get"]),
        (NOW | {"horae.Box.get": "2"}, "- `get` of a `Box`\n  takes more.\n", []),
        ({"horae.Box.get": "1"}, f"{OLD}- `horae.f` is gone.\n", []),
        ({"horae.Box.get": "1"}, OLD, ["horae.f"]),
        (NOW | {"horae.New": "1"}, OLD, ["horae.New"]),
    ],
)
def test_a_change_without_a_line_is_found(now: dict[str, str], said: str, missing: list[str]) -> None:
    assert unannounced(RECORD, now, said) == missing


def test_a_line_announces_one_change() -> None:
    said = f"{OLD}- `f` takes `b`.\n"
    record = updated(RECORD, NOW | {"horae.f": "2"}, said)

    assert unannounced(record, NOW | {"horae.f": "2"}, said) == []
    assert unannounced(record, NOW | {"horae.f": "3"}, said) == ["horae.f"]


def test_a_line_that_names_something_by_the_way_announces_nothing_later() -> None:
    said = f"{OLD}- `f` is quicker.\n"

    assert unannounced(updated(RECORD, NOW, said), NOW | {"horae.f": "2"}, said) == ["horae.f"]


def test_a_change_without_a_line_stays_out_of_the_record() -> None:
    assert updated(RECORD, NOW | {"horae.f": "2", "horae.New": "1"}, OLD) == RECORD


def test_branches_that_changed_the_same_name_go_together() -> None:
    """Whichever side of the record is kept: both lines together are others than those of one side."""
    mine, theirs = "- `f` takes `b`.\n", "- `f` takes `c`.\n"
    record = updated(RECORD, NOW | {"horae.f": "2"}, OLD + mine)

    assert unannounced(record, NOW | {"horae.f": "4"}, OLD + mine + theirs) == []


def test_a_release_needs_no_new_record() -> None:
    assert unannounced(read_record(), forms(), "") == []
    assert unannounced(RECORD, NOW | {"horae.f": "2"}, "- `f` takes `b`.\n") == []


def test_words_for_people_may_change_without_a_line() -> None:
    def model(**more: str) -> dict[str, object]:
        return {"paths": {}, "components": {"schemas": {"Job": {"properties": {"id": {"type": "string", **more}}}}}}

    assert digests(model(description="Its id.")) == digests(model())
    assert digests(model(format="uuid")) != digests(model())


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_make_docs_refuses_a_silent_change_in_a_copy_of_the_house(tmp_path: Path) -> None:
    house = tmp_path / "house"
    shutil.copytree(ROOT, house, ignore=shutil.ignore_patterns(".*", "build", "img", "__pycache__"))
    change(house / "src/horae/limits/limiter.py", "def try_acquire(self)", "def try_acquire(self, hurry: bool = False)")

    def make_docs() -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "scripts.docs"], cwd=house, env={"PYTHONPATH": f"{house}/src:{house}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr, (house / "docs/reference/announced.txt").read_text(encoding="utf-8")

    code, advice, record = make_docs()
    assert (code, record) == (1, (ROOT / "docs/reference/announced.txt").read_text(encoding="utf-8"))
    assert "  horae.RateLimiter.try_acquire\n" in advice
    change(house / "CHANGELOG.md", "### Added\n\n", "### Added\n\n- `RateLimiter.try_acquire` takes `hurry`.\n")
    assert make_docs()[:2] == (0, "")
