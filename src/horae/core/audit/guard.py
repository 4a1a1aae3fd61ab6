"""How the database guards the audit, in words."""

from __future__ import annotations

from collections.abc import Sequence

from horae.errors import Fact
from horae.words.audit import GUARD, GUARD_PARTS

ADVICE = GUARD["guard_advice"]


def missing_guard(missing: Sequence[str]) -> tuple[str, dict[str, Fact]]:
    """Return the reason and facts of what a database lacks to guard the audit, of which there is one thing or more."""
    known = [name for name in missing if name in GUARD_PARTS]
    if not known:
        return "guard_invisible", {}
    return "audit_unguarded", {"harm": list(dict.fromkeys(GUARD_PARTS[name] for name in known)), "missing": known}


def describe_missing(missing: Sequence[str]) -> str:
    """Return a sentence about the parts of the guard that the database does not have."""
    from horae.words.sentences import why_line

    return str(why_line(*missing_guard(missing)))
