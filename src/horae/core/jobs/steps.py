"""Named steps of an attempt or of an agent's turn, whose results are kept."""

from __future__ import annotations

from typing import Any

from horae.core.dataclass import dataclass
from horae.core.values import PYDANTIC


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The stored result of a step; None is a result like any other."""

    value: Any


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What is stored for a step: its result where it is ``kept``; one that is not has to run."""

    __pydantic_config__ = PYDANTIC

    kept: bool
    value: Any = None
