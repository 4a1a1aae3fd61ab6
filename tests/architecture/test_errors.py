"""Every error has its words, every word its error, and each rule can fail."""

from pathlib import Path

import pytest

from horae.words.sentences import ENGLISH, ROOMS
from tests.architecture import errors
from tests.architecture.reading import SOURCE

KNOWN = "from horae.errors import Conflict, NotFound, QuotaExceeded\n"
WORDS = {"thing_unknown": "There is no {thing}."}


def test_every_reason_that_is_raised_has_a_sentence() -> None:
    assert errors.reasons_without_words(SOURCE, ENGLISH) == []


def test_every_sentence_is_raised() -> None:
    assert errors.words_without_reasons(SOURCE, ENGLISH) == []


def test_every_reason_stands_in_one_table() -> None:
    assert errors.words_said_twice(ROOMS) == []


def test_every_error_is_given_the_facts_that_its_sentence_speaks_of() -> None:
    assert errors.facts_that_are_missing(SOURCE, ENGLISH) == []


def test_every_reason_belongs_to_one_class() -> None:
    assert errors.reasons_of_two_kinds(SOURCE) == []


def test_no_new_error_brings_its_own_sentence() -> None:
    assert errors.errors_with_sentences(SOURCE) == []


def test_no_new_plain_error_brings_a_sentence() -> None:
    assert errors.plain_errors_with_sentences(SOURCE) == []


def test_every_sentence_is_whole() -> None:
    assert errors.broken_words(ENGLISH) == []


def planted(folder: Path, text: str) -> Path:
    (folder / "thing.py").write_text(KNOWN + text + "\n")
    return folder


def test_a_reason_without_words_is_found(tmp_path: Path) -> None:
    assert len(errors.reasons_without_words(planted(tmp_path, 'raise NotFound("other_unknown")'), WORDS)) == 1


def test_words_that_are_never_said_are_found(tmp_path: Path) -> None:
    assert len(errors.words_without_reasons(planted(tmp_path, 'raise NotFound("other_unknown")'), WORDS)) == 1


def test_words_in_two_tables_are_found() -> None:
    assert len(errors.words_said_twice({"one": WORDS, "two": WORDS})) == 1


def test_a_missing_fact_is_found(tmp_path: Path) -> None:
    assert len(errors.facts_that_are_missing(planted(tmp_path, 'raise NotFound("thing_unknown", id=1)'), WORDS)) == 1


@pytest.mark.parametrize(
    "words", [{"Unknown": "It is unknown."}, {"a_b": " It is."}, {"a_b": "Unknown."}, {"a_b": "It is"}], ids=str
)
def test_broken_words_are_found(words: dict[str, str]) -> None:
    assert len(errors.broken_words(words)) == 1


def test_a_reason_of_two_classes_is_found(tmp_path: Path) -> None:
    source = planted(tmp_path, 'NotFound("thing_unknown", thing=1)\nConflict("thing_unknown", thing=1)')

    assert len(errors.reasons_of_two_kinds(source)) == 1


@pytest.mark.parametrize(
    "text", ['raise NotFound("There is none.")', 'raise NotFound(f"{1}")', 'QuotaExceeded("jobs", 3, "Too many.")']
)
def test_a_sentence_of_its_own_is_found(tmp_path: Path, text: str) -> None:
    source = planted(tmp_path, text)

    assert len(errors.errors_with_sentences(source, {})) == 1
    assert errors.errors_with_sentences(source, {"thing.py": 1}) == []


def test_a_number_that_is_needed_no_more_is_reported(tmp_path: Path) -> None:
    source = planted(tmp_path, 'raise NotFound("thing_unknown", thing=1)')

    assert len(errors.errors_with_sentences(source, {"thing.py": 1})) == 1


@pytest.mark.parametrize("text", ['raise ValueError("give a or b")', 'raise ValueError(f"no {1} here")'])
def test_a_plain_error_with_a_sentence_is_found(tmp_path: Path, text: str) -> None:
    source = planted(tmp_path, text)

    assert len(errors.plain_errors_with_sentences(source, {})) == 1
    assert errors.plain_errors_with_sentences(source, {"thing.py": 1}) == []


@pytest.mark.parametrize("text", ["raise ValueError(number)", 'raise ValueError("word")', "x = 1"])
def test_a_plain_error_without_a_sentence_is_not_reported(tmp_path: Path, text: str) -> None:
    source = planted(tmp_path, text)

    assert errors.plain_errors_with_sentences(source, {}) == []
    assert len(errors.plain_errors_with_sentences(source, {"thing.py": 1})) == 1
