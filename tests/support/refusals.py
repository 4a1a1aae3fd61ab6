"""Assert which error was raised: its class, its reason and its facts, never its sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from horae.errors import HoraeError

E = TypeVar("E", bound=HoraeError)


@contextmanager
def refused(kind: type[E], reason: str | Collection[str], /, **facts: Any) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expect an error of this class, with this reason (or one of these) and at least these facts."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.reason in ([reason] if isinstance(reason, str) else reason), repr(caught.value)
    assert {name: caught.value.facts.get(name) for name in facts} == facts
