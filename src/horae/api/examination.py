"""What the doctor found in a running process."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Any, ClassVar, Literal

from horae.api.values import Get
from horae.core.dataclass import dataclass
from horae.core.values import PYDANTIC
from horae.words.languages import Language


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One sentence of the doctor about one thing, and what to type where it is not well.

    ``reason`` says which sentence it is and ``facts`` what it is about, so that it can be put into other words.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "reason": lambda finding: finding.why.reason,
        "facts": lambda finding: dict(finding.why.facts),
    }

    check: str
    level: Literal["ok", "warning", "problem"]
    text: str
    mend: str | None = None
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def in_words(self, language: Language) -> str:
        """Return the sentence in a language; as it came where this release does not know it."""
        from horae.words.sentences import why_line

        return why_line(self.reason, self.facts, language) or self.text


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What the doctor found in a running process; not ``complete`` where the time was up before the last check."""

    __pydantic_config__ = PYDANTIC

    healthy: bool
    complete: bool
    checked_at: datetime
    findings: tuple[Finding, ...] = ()
