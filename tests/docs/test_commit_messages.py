"""The check of commit messages that pre-commit calls."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.commit_message import problems

ROOT = Path(__file__).parents[2]
GOOD = "Type Machine.after() by its states\n\nA wrong arrow was found only when it was taken.\n"


@pytest.mark.parametrize(
    "message",
    [
        GOOD,
        GOOD + "\n# Please enter the commit message\n",
        "Merge branch 'main'\n",
        "fixup! Type Machine.after() by its states\n",
        f"{'x' * 72}\n\nWhy.\n",
        GOOD + "# ------------------------ >8 ------------------------\ndiff --git a b\n",
    ],
)
def test_a_plain_subject_with_a_reason_is_accepted(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        (f"{'x' * 73}\n\nWhy.\n", "73 characters"),
        ("Add a thing.\n\nWhy.\n", "full stop"),
        ("Add a thing\nWhy.\n", "second line"),
        ("Add a thing\n", "no body"),
        ("Add a thing\n\n# Why.\n", "no body"),
    ],
)
def test_what_is_wrong_is_said(message: str, said: str) -> None:
    assert said in " ".join(problems(message))


def test_the_hook_refuses_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "message").write_text("Add a thing.\n")

    done = subprocess.run(
        [sys.executable, "scripts/commit_message.py", str(tmp_path / "message")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert "full stop" in done.stderr


CHECKED_SINCE = "6dae79d96ea0120a9b6920ae4f0223f3b9e1eaa1"  # the newest commit on main when this test came there


def git(*arguments: str, folder: Path = ROOT) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def has_history() -> bool:
    """Return whether the commit that we begin after is here: not in an archive, nor in a shallow clone."""
    asked = ["git", "merge-base", "--is-ancestor", CHECKED_SINCE, "HEAD"]
    return (ROOT / ".git").exists() and subprocess.run(
        asked, cwd=ROOT, capture_output=True, check=False
    ).returncode == 0


def faults_since(commit: str, folder: Path) -> dict[str, list[str]]:
    """Return what is wrong with each commit since then; merges say themselves what they are."""
    log = git("log", "--no-merges", "--format=%H%n%B%x00", f"{commit}..HEAD", folder=folder)
    messages = [each.strip("\n").partition("\n") for each in log.split("\0") if each.strip()]
    return {number[:12]: found for number, _, message in messages if (found := problems(message))}


@pytest.mark.skipif(not has_history(), reason="this is an archive or a shallow clone, without the history")
def test_every_commit_since_then_has_a_plain_subject_and_a_reason() -> None:
    assert faults_since(CHECKED_SINCE, ROOT) == {}


def test_a_commit_without_a_reason_is_found(tmp_path: Path) -> None:
    def commit(message: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
        git(*who, "commit", "--quiet", "--allow-empty", "-m", message, folder=tmp_path)

    git("init", "--quiet", folder=tmp_path)
    commit("Begin")
    first = git("rev-parse", "HEAD", folder=tmp_path).strip()
    commit(GOOD)
    assert faults_since(first, tmp_path) == {}

    commit("Add a thing.")
    (said,) = faults_since(first, tmp_path).values()
    assert len(said) == 2
