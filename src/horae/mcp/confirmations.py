"""The operator's tools: list what agents ask for, and answer. Never on a server that agents reach."""

from __future__ import annotations

from horae.actions.consistency import moment
from horae.api.attention.values import LaneConfirmation
from horae.api.values import extend
from horae.core.cursors import MAX_PAGE
from horae.core.dataclass import dataclass
from horae.errors import NotFound
from horae.mcp.arguments import Limit, Reason, Verdict, WaitId
from horae.mcp.here import Here
from horae.mcp.shapes import Answered, ConfirmationList


@dataclass(frozen=True)
class ConfirmTools:
    """Confirmations of all lanes, or of one owner's, or of one lane."""

    here: Here
    owner: str | None = None
    lane: str | None = None

    def confirm_list(self, limit: Limit = 50) -> ConfirmationList:
        """See what agents wait for a person to approve, the one with the earliest deadline first."""
        room = self.here.all_attention
        with moment(self.here.world):
            open_ones = [
                extend(LaneConfirmation, each, lane=lane.name, owner=lane.owner)
                for lane in room.lanes(owner=self.owner)
                if self.lane in (None, lane.name)
                for each in room.confirmations(lane.name, owner=lane.owner, limit=MAX_PAGE)
            ]
        by_deadline = sorted(open_ones, key=lambda each: (each.deadline, each.id))
        return ConfirmationList(items=tuple(by_deadline[:limit]))

    def confirm_answer(self, wait_id: WaitId, approve: Verdict, reason: Reason = "") -> Answered:
        """Approve or deny exactly what was asked, once. After its deadline an answer permits nothing."""
        room = self.here.all_attention
        try:
            asked = room.confirmation(wait_id)
        except NotFound:
            raise NotFound("confirmation_not_listed", id=wait_id) from None
        if self.owner not in (None, asked.owner) or self.lane not in (None, asked.lane):
            raise NotFound("confirmation_not_listed", id=wait_id)
        answer = room.confirm(asked.lane, wait_id, approve, reason=reason, owner=asked.owner)
        return extend(Answered, answer, lane=asked.lane, owner=asked.owner, durability=self.here.durability)
