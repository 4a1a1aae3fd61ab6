"""The operator's tools: list what agents ask for, and answer. Never on a server that agents reach."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import StrictBool

from horae.actions.attention.queries import lane_of_confirmation
from horae.actions.consistency import moment
from horae.api.values import extended
from horae.core.cursors import MAX_PAGE
from horae.errors import NotFound
from horae.mcp.arguments import Limit, Reason, WaitId
from horae.mcp.here import Here
from horae.mcp.shapes import Answered, ConfirmationList, LaneConfirmation


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
                extended(LaneConfirmation, each, lane=lane.name, owner=lane.owner)
                for lane in room.lanes(owner=self.owner)
                if self.lane in (None, lane.name)
                for each in room.confirmations(lane.name, owner=lane.owner, limit=MAX_PAGE)
            ]
        by_deadline = sorted(open_ones, key=lambda each: (each.deadline, each.id))
        return ConfirmationList(items=tuple(by_deadline[:limit]))

    def confirm_answer(self, wait_id: WaitId, approve: StrictBool, reason: Reason = "") -> Answered:
        """Approve or deny exactly what was asked, once. After its deadline an answer permits nothing."""
        room = self.here.all_attention
        # The room knows a confirmation only by its lane; the tool's caller has the number alone.
        lane = lane_of_confirmation(self.here.world, wait_id)
        if lane is None or self.owner not in (None, lane.owner) or self.lane not in (None, lane.name):
            raise NotFound("confirmation_not_listed", id=wait_id)
        answer = room.confirm(lane.name, wait_id, approve, reason=reason, owner=lane.owner)
        return extended(Answered, answer, lane=lane.name, owner=lane.owner, durability=self.here.durability)
