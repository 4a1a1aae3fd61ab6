"""The operator's tools: see what agents ask for, and answer. Never on a server that agents reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import StrictBool

from horae.actions import waits
from horae.core.instants import iso
from horae.core.lanes import Lane, TaskWait
from horae.core.payloads import decode
from horae.errors import NotFound
from horae.mcp.arguments import Limit, Reason, WaitId
from horae.mcp.here import Here
from horae.mcp.shapes import Answered, Confirmation, ConfirmationList
from horae.ports import Tx

MAX_LANES = 1000
Outcome = Literal["approved", "denied", "too late", "already decided", "withdrawn"]


@dataclass(frozen=True)
class ConfirmTools:
    """Confirmations of all lanes, or of one owner's, or of one lane."""

    here: Here
    owner: str | None = None
    lane: str | None = None

    def confirm_list(self, limit: Limit = 50) -> ConfirmationList:
        """See what agents wait for a person to approve, the one with the earliest deadline first."""
        self.here.who()

        def read(tx: Tx) -> list[tuple[Lane, TaskWait]]:
            found: list[tuple[Lane, TaskWait]] = []
            after = 0
            while page := tx.attention.lanes(self.owner, limit=MAX_LANES, after=after):
                for lane in page:
                    if self.lane in (None, lane.name):
                        found += [
                            (lane, wait) for wait in tx.attention.open_waits(lane.number) if wait.kind == "confirm"
                        ]
                after = page[-1].number
            return found

        asked = sorted(self.here.world.store.read(read), key=lambda each: (each[1].deadline, each[1].number))
        return ConfirmationList(confirmations=[_shape(lane, wait) for lane, wait in asked[:limit]])

    def confirm_answer(self, wait_id: WaitId, approve: StrictBool, reason: Reason = "") -> Answered:
        """Approve or deny exactly what was asked, once. After its deadline an answer permits nothing."""
        who = self.here.who()
        lane, before = self._find(wait_id)
        after = waits.confirm(
            self.here.world, lane.name, wait_id, approve, actor=who.actor, reason=reason, owner=lane.owner
        )
        return Answered(
            wait_id=wait_id,
            outcome=_outcome(before, after),
            decided_by=after.decided_by,
            durability=self.here.durability,
        )

    def _find(self, wait_id: int) -> tuple[Lane, TaskWait]:
        def read(tx: Tx) -> tuple[Lane, TaskWait] | None:
            wait = tx.attention.wait(wait_id)
            lane = None if wait is None else tx.attention.lane_by_number(wait.lane)
            return None if wait is None or lane is None else (lane, wait)

        found = self.here.world.store.read(read)
        if (
            found is None
            or found[1].kind != "confirm"
            or self.owner not in (None, found[0].owner)
            or self.lane not in (None, found[0].name)
        ):
            raise NotFound(f"There is no confirmation {wait_id}; confirm_list shows those that wait for an answer.")
        return found


def _shape(lane: Lane, wait: TaskWait) -> Confirmation:
    intent = {} if wait.intent is None else decode(wait.intent)
    return Confirmation(
        wait_id=wait.number,
        owner=lane.owner,
        lane=lane.name,
        task_id=f"t{wait.task}",
        action=intent.get("action"),
        arguments=intent.get("arguments"),
        intent_hash=wait.intent_hash,
        asked_at=iso(wait.opened_at),
        deadline=iso(wait.deadline),
    )


def _outcome(before: TaskWait, after: TaskWait) -> Outcome:
    if after.state == "timeout":
        return "too late"
    if after.state == "cancelled":
        return "withdrawn"
    if before.state != "open":
        return "already decided"
    return "approved" if after.grant is not None else "denied"
