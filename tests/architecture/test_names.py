"""Names say what a thing is, and each rule can fail."""

from pathlib import Path

import pytest

from tests.architecture import names
from tests.architecture.reading import SOURCE


def test_no_new_module_is_named_after_doing() -> None:
    assert names.modules_named_after_doing(SOURCE) == []


def test_no_refused_word_is_a_name() -> None:
    assert names.refused_names(SOURCE) == []


def test_a_new_module_named_after_doing_is_found(tmp_path: Path) -> None:
    (tmp_path / "sending.py").write_text("x = 1\n")

    assert len(names.modules_named_after_doing(tmp_path, set())) == 1
    assert names.modules_named_after_doing(tmp_path, {"sending.py"}) == []
    assert len(names.modules_named_after_doing(tmp_path, {"sending.py", "gone/being.py"})) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def told(): ...",
        "async def put_off(): ...",
        "class Pen: ...",
        "def f(*, fate): ...",
        "class A:\n    told: int = 0",
    ],
)
def test_a_refused_name_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text(f"{text}\n")

    assert len(names.refused_names(tmp_path, {})) == 1


@pytest.mark.parametrize("text", ["def f(): return 'told'", "# told", "def told_apart(): ..."])
def test_a_word_in_a_text_is_no_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text(f"{text}\n")

    assert names.refused_names(tmp_path, {}) == []
    assert len(names.refused_names(tmp_path, {"thing.py:told": "gone"})) == 1


def test_a_refused_word_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "fate.py").write_text("x = 1\n")

    assert len(names.refused_names(tmp_path, {})) == 1
