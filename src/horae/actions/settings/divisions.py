"""What a database of a cluster notes about its own shares: how it has divided, and what it gave up of a budget.

No other database copies these rows. A process that applies a share locks the division, so that none is applied by
one that has just been replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horae.core.cluster.settings import OWN, Division, SharedSetting, read_portion

if TYPE_CHECKING:
    from horae.ports.store import Tx

ALL = "*"  # the name of the division; beside it stand names of budgets


class Redivided(Exception):
    """The shares were divided anew meanwhile; the transaction is given up and repeated."""


def read_division(tx: Tx) -> Division | None:
    """Return how this database has divided; None: it has not yet."""
    return _division(next(iter(tx.settings.find([(OWN, ALL)])), None))


def lock_division(tx: Tx) -> Division | None:
    """Return how this database has divided, and let no other transaction change it until this one ends."""
    return _division(tx.settings.lock(OWN, [ALL])[ALL])


def put_division(tx: Tx, number: int, division: Division) -> None:
    """Write how this database divides; the caller has locked it."""
    put_note(tx, ALL, number, division.version, division.as_json())


def put_note(tx: Tx, name: str, number: int, version: int, value: dict[str, Any]) -> None:
    """Write a note of this database about itself."""
    tx.settings.lock(OWN, [name])
    tx.settings.put(SharedSetting(OWN, name, version, number, value))


def _division(found: SharedSetting | None) -> Division | None:
    if found is None or not found.value:
        return None
    return Division(found.version, tuple(found.value["keepers"]), read_portion(found.value["portion"]))
