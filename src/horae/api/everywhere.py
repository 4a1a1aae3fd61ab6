"""How an operation is done in a cluster: asked of every database, or decided in one and followed by all others.

What does it is in ``api/shards.py``, which a single database never imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horae.api.gather import Merged
    from horae.api.here import Here
    from horae.core.cluster.settings import Kind
    from horae.ports.store import Tx


def over_all(
    verb: Callable[[Here], Any], merge: Callable[[list[Any]], Any], *, drained: bool = False
) -> Callable[[Here], Merged]:
    """Return what runs a verb in every database of a cluster and merges the answers; see ``api/shards.py``."""

    def gather(here: Here) -> Merged:
        from horae.api.shards import gather_all  # a single database does not need it

        return gather_all(here, verb, merge, drained=drained)

    return gather


def as_setting(
    kind: Kind,
    name: str,
    value: Mapping[str, Any] | Callable[[Tx], Mapping[str, Any]],
    verb: Callable[[Here], Any],
    merge: Callable[[list[Any]], Any],
    *,
    reason: str = "",
) -> Callable[[Here], Merged]:
    """Return what decides about a setting by a verb in one database of a cluster, and lets all others follow."""

    def gather(here: Here) -> Merged:
        from horae.api.shards import change_setting  # a single database does not need it

        return change_setting(here, (kind, name, value, reason), lambda there, _: verb(there), merge)

    return gather


def as_shared_limit(
    name: str,
    most: int | None,
    act: Callable[[Here, int | None], Any],
    merge: Callable[[list[Any]], Any],
    *,
    reason: str = "",
) -> Callable[[Here], Merged]:
    """Return what gives each database of a cluster its share of a limit, and merges the answers."""

    def gather(here: Here) -> Merged:
        from horae.api.shards import share_out

        return share_out(here, name, most, act, merge, reason)

    return gather
