"""Lines of the log."""

import logging

import pytest

from horae.cli.logs import JsonLines, TextLines
from horae.core.access.callers import token_text

SECRET = "5e" * 32
TOKEN = token_text("6f1c0d2b9a47", SECRET)


@pytest.mark.parametrize("form", [TextLines, JsonLines])
def test_no_line_shows_a_token_wherever_it_comes_from(form: type[logging.Formatter]) -> None:
    """Security check 20: a job that is given a token may fail with it in its words."""
    try:
        raise RuntimeError(f"refused: {TOKEN}")
    except RuntimeError as problem:
        error = (RuntimeError, problem, problem.__traceback__)
    record = logging.LogRecord("horae.worker", logging.ERROR, "", 1, "failed: %s", (TOKEN,), error)
    line = form().format(record)
    assert SECRET not in line
    assert line.count("horae_6f1c0d2b9a47_…") >= 2  # in the message and in the traceback
