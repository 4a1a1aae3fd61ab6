"""Concurrency keys of tenants: as stored they begin with the tenant, so that two tenants never share one."""

from __future__ import annotations

from urllib.parse import quote

from horae.core.cluster.shard_keys import without_shard
from horae.core.jobs.job import SYSTEM


def stored_key(owner: str, key: str | None) -> str | None:
    """Return a concurrency key as stored."""
    return None if key is None else prefix_of(owner) + key


def given_key(owner: str, key: str | None) -> str | None:
    """Return a stored concurrency key as its owner gave it."""
    given = without_shard(key)
    return None if given is None else given.removeprefix(prefix_of(owner))


def prefix_of(owner: str) -> str:
    """Return nothing for the house; for a tenant a word that no other tenant's name can make."""
    return "" if owner == SYSTEM else f"@{quote(owner, safe='')}:"
