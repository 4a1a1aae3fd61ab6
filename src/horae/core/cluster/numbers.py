"""Numbers that are unique in a cluster and carry their virtual shard, and the ids that are written from them.

A number is ``database × 2**48 + sequence × 2**12 + vshard``. Numbers below 2**48 were drawn before there was a cluster;
they belong to the first database and are written as ever.
"""

from __future__ import annotations

VSHARD_BITS = 12
VSHARDS = 1 << VSHARD_BITS  # for ever: ids, hashes and every stored map depend on it
DATABASE_BITS = 48
FIRST_NUMBER = 1 << DATABASE_BITS  # of the cluster; what is lower was drawn before
DRAWS = 1 << (DATABASE_BITS - VSHARD_BITS)  # that one number of a database is good for
LARGEST = 2**63 - 1
LAST_DATABASE = (1 << (63 - DATABASE_BITS)) - 1
FIRST_DATABASE = 1


def vshard_in(number: int) -> int | None:
    """Return the virtual shard that a drawn number carries; None for one from before the cluster."""
    return None if number < FIRST_NUMBER else number & (VSHARDS - 1)


def birthplace(number: int) -> int:
    """Return the number of the database where a number was drawn."""
    return number >> DATABASE_BITS or FIRST_DATABASE


def first_draw(database: int) -> int:
    """Return the sequence value with which a database begins."""
    return database << (DATABASE_BITS - VSHARD_BITS)


def number_from(draw: int, vshard: int) -> int:
    """Return the number of a row of *vshard*, made of the next value of its database's sequence."""
    return draw << VSHARD_BITS | vshard


def write_id(prefix: str, number: int) -> str:
    """Return the id by which the outside knows a row whose number carries its shard: ``job_42``, ``job_17x…``."""
    return f"{prefix}{number}" if number < FIRST_NUMBER else f"{prefix}{number & (VSHARDS - 1)}x{number}"


def job_id(number: int) -> str:
    return f"job_{number}" if number < FIRST_NUMBER else f"job_{number & (VSHARDS - 1)}x{number}"


def read_number(text: str) -> int | None:
    """Return the number in an id behind its prefix; None where it is none, or contradicts the shard before it."""
    vshard, x, digits = text.rpartition("x")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        return None
    number = int(digits)
    if number > LARGEST or (x and vshard != str(vshard_in(number))):
        return None
    return number


def vshard_of_id(text: str) -> int | None:
    """Return the virtual shard that an id names; None where it names none: then its birthplace is asked."""
    number = number_of_id(text)
    return None if number is None or "x" not in text else vshard_in(number)


def number_of_id(text: str) -> int | None:
    """Return the number in any id: ``job_42``, ``job_17x….3`` of a run, ``t12``; None where there is none."""
    bare = text.partition(".")[0].lstrip("abcdefghijklmnopqrstuvwyz_")  # not x, which parts shard and number
    return read_number(bare)
