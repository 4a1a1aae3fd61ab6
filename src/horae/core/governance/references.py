"""References to governed objects and decisions, as acts and decisions cite them: ``memory:mem_ab12cd34ef56``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.governance.machines import KINDS
from horae.core.jobs.payloads import label
from horae.errors import InvalidInput

CITABLE = (*KINDS, "decision")
MAX_ID = 150
MAX_CITES = 50


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """The kind and the id of what is cited."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


def reference(text: Any) -> Reference:
    """Read ``kind:id``; the id may contain further colons."""
    kind, colon, found = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not colon or kind not in CITABLE:
        raise InvalidInput("cite_unreadable", given=repr(text)[:100], kinds=CITABLE)
    return Reference(kind, label(found, "id of a cited object", MAX_ID))


def references(given: Any) -> tuple[Reference, ...]:
    """Read a list of references, each once and in the order given."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidInput("cites_unreadable", given=type(given).__name__, kinds=CITABLE)
    if len(given) > MAX_CITES:
        raise InvalidInput("cites_too_many", count=len(given), most=MAX_CITES)
    return tuple(dict.fromkeys(reference(each) for each in given))
