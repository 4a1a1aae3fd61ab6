"""Keys and names of jobs with a shard key: as stored they begin with it, so that each shard key has its own.

Otherwise two of them would share a name as long as their shards happen to live in one database.
"""

from __future__ import annotations

from horae.errors import InvalidInput

LONGEST_SHARD_KEY = 100
LONGEST = 250
SEPARATOR = "\x1f"  # no key has one: they are printable


def in_shard(shard_key: str, *names: str | None) -> list[str | None]:
    """Return keys and names as they are stored for a shard key."""
    for name in names:
        if name is not None and len(shard_key) + len(name) >= LONGEST:
            raise InvalidInput("shard_key_long", shard_key=shard_key, name=name, most=LONGEST - 1)
    return [None if name is None else f"{shard_key}{SEPARATOR}{name}" for name in names]


def without_shard(name: str | None) -> str | None:
    """Return a stored key or name as it was given."""
    return None if name is None else name.rpartition(SEPARATOR)[2]


def shard_key_in(name: str | None) -> str | None:
    """Return the shard key of a stored key or name; None where it has none."""
    return None if name is None else name.rpartition(SEPARATOR)[0] or None
