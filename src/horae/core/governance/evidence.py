"""Evidence: where something can be found that speaks for or against an object."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Literal, get_args

from horae.core.dataclass import dataclass

# examined: a verifier looked at it, and it spoke neither for nor against
EvidenceKind = Literal["supports", "contradicts", "reinforces", "counterexample", "examined"]
EVIDENCE_KINDS: tuple[EvidenceKind, ...] = get_args(EvidenceKind)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence about one object. The same reference is the same piece."""

    id: str
    owner: str
    object: int
    reference: str
    kind: EvidenceKind
    at: datetime
    actor: str
    source: str = ""
    derived: bool = False  # from the object itself, so that it corroborates nothing
    survived: bool = False  # a counter-example that the object survived
    note: str | None = None

    @property
    def reference_key(self) -> str:
        """The digest by which a reference is found; references may be too long for an index."""
        return reference_key(self.reference)

    @property
    def counts(self) -> bool:
        """Whether it corroborates the object."""
        return not self.derived and self.kind in ("supports", "reinforces")


def reference_key(reference: str) -> str:
    return hashlib.sha256(reference.encode(errors="surrogatepass")).hexdigest()
