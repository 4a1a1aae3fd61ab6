"""How the database guards the audit, in words."""

from __future__ import annotations

from collections.abc import Sequence

from horae.words.audit import GUARD, GUARD_PARTS

ADVICE = GUARD["guard_advice"]
GUARDED = GUARD["audit_guarded"]


def describe_missing(missing: Sequence[str]) -> str:
    """Return a sentence about the parts of the guard that the database does not have, of which there is one or more."""
    known = [name for name in missing if name in GUARD_PARTS]
    if not known:
        return GUARD["guard_invisible"]
    harm = tuple(dict.fromkeys(GUARD_PARTS[name] for name in known))
    from horae.words.sentences import why_line

    return str(why_line("audit_unguarded", {"harm": harm, "missing": tuple(known)}))
