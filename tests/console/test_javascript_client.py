"""The JavaScript client and its types: what it promises is what it does, and what the service says."""

import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from horae.api.scheduled_tasks import values
from horae.api.scheduled_tasks.room import ScheduledTasks
from scripts import javascript_types
from tests.conftest import needs
from tests.support import programs

TYPES = Path("src/horae/console/assets/horae.d.ts")


def interface(name: str) -> set[str]:
    found = re.search(rf"export interface {name} {{(.*?)\n}}", TYPES.read_text(), re.DOTALL)
    assert found is not None, name
    return set(re.findall(r"^  (?:readonly )?(\w+)\??:", found[1], re.MULTILINE))


@pytest.mark.parametrize("name", ["ScheduledTask", "ScheduledTaskRun", "TriggeredTask", "TaskPreview", "TaskLimits"])
def test_a_type_has_the_fields_that_the_service_sends(name: str) -> None:
    value: Any = getattr(values, name)
    assert interface(name) == {each.name for each in fields(value)}


def test_the_terms_are_those_of_the_room() -> None:
    assert interface("TaskTerms") == set(values.TaskTerms.__annotations__)


def test_every_path_of_the_client_is_one_of_the_room() -> None:
    script = TYPES.with_suffix("").with_suffix(".js").read_text()
    known = {"/scheduled-tasks", "/scheduled-tasks/limits", "/scheduled-tasks/preview"}
    known |= {f"{{at}}{each}" for each in ("/runs", "/trigger", "/preview")}
    paths = set(re.findall(r'"(/scheduled-tasks[a-z/-]*)"', script)) | {
        f"{{at}}{each}" for each in re.findall(r"\$\{at\(\w+\)\}(/\w+)`", script)
    }
    assert paths == known
    assert ScheduledTasks.limits.path == "/scheduled-tasks/limits"


@pytest.mark.slow
def test_a_client_that_does_not_keep_its_types_is_found(tmp_path: Path) -> None:
    needs(programs.TYPESCRIPT)
    for each in (*javascript_types.FILES, str(TYPES)):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each, tmp_path / each)
    assert javascript_types.check(tmp_path) == 0
    script = tmp_path / javascript_types.FILES[0]
    script.write_text(script.read_text().replace("  limits(", "  borders("))
    assert javascript_types.check(tmp_path) != 0
