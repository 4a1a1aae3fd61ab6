"""The audit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from horae.core.audit.chain import Head, Seal
    from horae.core.audit.entries import Entry


class AuditRows(Protocol):
    def append(self, entry: Entry) -> None: ...
    def append_many(self, entries: Iterable[Entry]) -> None: ...
    def find(
        self,
        *,
        object_id: str | None,
        limit: int,
        before: int | None,
        owner: str | None = None,
        actor: str | None = None,
        verb: str | None = None,
        object_type: str | None = None,
    ) -> list[tuple[int, Entry]]: ...
    def open_entries(self, limit: int) -> list[tuple[int, Entry]]: ...
    def lock_chains(self) -> None: ...
    def heads(self, owners: Iterable[str] | None = None) -> dict[str, Head]: ...
    def seal(self, seals: Sequence[Seal], heads: Iterable[Head]) -> None: ...
    def owners(self) -> list[str]: ...
    def chain(self, owner: str, *, after: tuple[int, int], limit: int) -> list[tuple[Seal, Entry]]: ...
    def missing_guards(self) -> list[str]: ...
    def erase_reasons(self, owner: str, objects: Collection[tuple[str, str]]) -> int:
        """Forget the reasons that stand beside the entries about these objects, each a type and an id; how many."""
