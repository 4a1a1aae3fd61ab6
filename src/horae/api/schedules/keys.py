"""Keys of schedules that are made by an operation: each has a path over HTTP with one meaning.

Code can declare a key whose path has two meanings; then HTTP refuses that path and does not guess.
"""

from __future__ import annotations

from horae.core.jobs.payloads import label
from horae.errors import InvalidInput

GROUPS = "groups"
VERBS = ("pause", "resume", "trigger", "backfill", "preview", "history", "versions")


def schedule_key(key: str) -> str:
    """Return the key of a new schedule; refuse one whose path means something else, or does not arrive as sent."""
    first, *others = label(key, "schedule key", 200).split("/")
    if not others:
        return key
    another = "-".join(part for part in (first, *others) if part.strip(".")) or "another"
    if first == GROUPS:
        raise InvalidInput("schedule_key_means_group", key=key, another=another)
    if others[-1] in VERBS:
        raise InvalidInput("schedule_key_means_verb", key=key, verb=others[-1], another=another)
    if any(part in ("", ".", "..") for part in (first, *others)):
        raise InvalidInput("schedule_key_not_sent", key=key, another=another)
    return key
