"""Mask what an operation answers, before it is published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from horae.actions.jobs.masking import TEXTS, VALUES, mask_for_readers
from horae.api.here import Here
from horae.api.operation import Page


def for_readers(here: Here, found: Any) -> Any:
    """Return what a verb found without sensitive values: alone, in a list or in a page."""
    if isinstance(found, Page):
        return replace(found, items=tuple(for_readers(here, list(found.items))))
    if isinstance(found, list | tuple):
        return mask_for_readers(here.world, found) if found and _is_masked(found[0]) else found
    return mask_for_readers(here.world, [found])[0] if _is_masked(found) else found


def _is_masked(value: Any) -> bool:
    """Return whether it is a job, a run or a schedule."""
    return hasattr(value, "handler") and any(hasattr(value, name) for name in (*VALUES, *TEXTS))
