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
