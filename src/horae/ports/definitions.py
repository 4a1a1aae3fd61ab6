"""The handlers of the house, as its workers declare them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.governance.budgets import JobBudget
    from horae.core.jobs.parameters import Parameter


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """A handler as the house's workers declare it; *tenants* says whether tenants' jobs may run it."""

    name: str
    queue: str
    tenants: bool = False
    app: str = ""
    stored_at: datetime | None = None
    stored_by: str = ""
    sensitive: tuple[str, ...] = ()  # names of arguments that readers do not see
    parameters: tuple[Parameter, ...] | None = None  # None where its application does not say
    description: str | None = None
    budget: JobBudget | None = None  # what tenants' jobs draw on, whatever they say themselves


class DefinitionRows(Protocol):
    """The handlers of the house's workers, and which of them are open to tenants."""

    def get(self, name: str) -> StoredDefinition | None: ...
    def all(self) -> list[StoredDefinition]: ...
    def sensitive(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the declared names of sensitive arguments of these handlers; those without are left out."""

    def lock(self) -> None:
        """Lock the definitions: no claim may hold jobs, and no other transaction change one, until this one ends."""

    def put(self, *changed: StoredDefinition) -> None: ...
    def release(self, limit: int) -> tuple[int, set[str]]:
        """Let up to *limit* held jobs of open handlers back into the claim; how many, in which queues."""
