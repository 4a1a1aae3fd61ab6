"""Which verbs an object is open to: by its state, and by who asks. A page or a tool offers no other.

The verbs check again when they are called; what is said here may be old by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import EVERY_AGENT
from horae.core.governance.machines import MACHINES
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import Policy
from horae.core.governance.timers import may_look
from horae.core.governance.transitions import archive_events

USABLE = ("verified", "active", "active/supported", "active/uncertain")
CLEARED = {"memory": "cleared", "experience": "reviewed", "cognition": "confirmed"}
REJECTED = {"memory": "forged", "cognition": "refuted"}


@dataclass(frozen=True, slots=True)
class Asked:
    """An object, the policy that holds for it, and the caller who would act."""

    it: GovernedObject
    policy: Policy
    now: datetime
    caller: Caller

    @property
    def lives(self) -> bool:
        return not self.it.is_final

    @property
    def is_judge(self) -> bool:
        """Whether the caller is a person who did not propose it."""
        return self.caller.is_person and self.caller.actor != self.it.proposer

    def has_arrow(self, event: str | None) -> bool:
        return event is not None and (self.it.state, event) in MACHINES[self.it.kind].arrows

    @property
    def is_removable(self) -> bool:
        return self.lives and not self.it.protected and bool(archive_events(self.it, self.policy, self.now))

    @property
    def may_be_looked_at(self) -> bool:
        if self.caller.is_person:
            return self.lives
        return self.lives and not self.it.is_unknowable and may_look(self.it, "verify", self.policy)


OPEN: Mapping[str, Callable[[Asked], bool]] = {
    "use": lambda asked: asked.it.state in USABLE,
    "evidence": lambda asked: asked.lives,
    "verify_now": lambda asked: asked.may_be_looked_at,
    "contest": lambda asked: asked.lives and not asked.it.contested,
    "clear": lambda asked: asked.is_judge and asked.has_arrow(CLEARED.get(asked.it.kind)),
    "reject": lambda asked: asked.is_judge and asked.has_arrow(REJECTED.get(asked.it.kind)),
    "archive": lambda asked: asked.is_removable,
    "reinstate": lambda asked: (
        asked.has_arrow("reinstated")
        and asked.it.superseded_by is None
        and (asked.caller.is_person or not asked.it.rejected)
    ),
    "supersede": lambda asked: (
        asked.it.superseded_by is None
        and (asked.is_removable or (asked.it.status == "archived" and not asked.it.protected))
    ),
    "retract": lambda asked: asked.lives and (asked.it.risk != "high" or asked.is_judge),
    "erase": lambda asked: asked.it.erased_at is None and (asked.it.risk != "high" or asked.caller.is_person),
}


def open_verbs(it: GovernedObject, policy: Policy, now: datetime, caller: Caller) -> tuple[str, ...]:
    """Return the verbs that an object is open to for a caller; whether its scopes allow them is another question."""
    if caller.agent is not None and it.agent not in (caller.agent, EVERY_AGENT):
        return ()
    asked = Asked(it, policy, now, caller)
    return tuple(verb for verb, is_open in OPEN.items() if is_open(asked))
