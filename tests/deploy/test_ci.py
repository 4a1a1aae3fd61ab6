"""Continuous integration runs what a contributor runs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_workflow_calls_targets_of_a_contributor_only() -> None:
    """Coverage is a job of its own: a floor that nothing measures is none, and it takes minutes."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()

    assert re.findall(r"run: (.*)", workflow) == ["make lint", "make coverage", "make test"]


def test_the_messages_of_commits_are_there_to_be_checked() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()

    assert re.search(r"fetch-depth: 0.*\n +- run: make test", workflow)


def test_hooks_use_what_is_there() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()

    assert set(re.findall(r"repo: (\S+)", hooks)) == {"local"}
    assert all((ROOT / script).is_file() for script in re.findall(r"entry: python3 (\S+)", hooks))


def test_project_pages_name_no_invented_address() -> None:
    pages = [
        ROOT / "CODE_OF_CONDUCT.md",
        *(ROOT / "docs" / "contributing").glob("*.md"),
        *(ROOT / ".github").rglob("*.md"),
    ]

    assert len(pages) > 4
    assert not [page for page in pages if re.search(r"[\w.]+@[\w-]+\.\w+", page.read_text())]
