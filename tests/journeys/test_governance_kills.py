"""Processes that work on governed objects are killed at every step: whoever takes over finds nothing half done."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from horae import Horae
from horae.actions.audit import seal_all, verify_audit
from horae.actions.budgets.repair import check as check_budgets
from horae.actions.governance.invariants import check_objects
from horae.api.governance.object_values import GovernedObject
from tests.journeys.conftest import Journey, Member, setting_out
from tests.journeys.governed import build
from tests.support.waiting import wait_until

LEASE = 1.0  # seconds: the heir waits for it
CAPACITY = 1000


class Ground:
    """A journey whose application verifies memories."""

    def __init__(self, journey: Journey, app: Horae) -> None:
        self.journey, self.app = journey, app
        app.budgets.set("verify.memory", "tokens", CAPACITY)

    def process(self, **given: Any) -> Member:
        return self.journey.python("-m", "tests.journeys.governed", json.dumps(given))

    def doomed(self, **given: Any) -> None:
        """Run a process that kills itself."""
        assert self.process(**given).wait() == -signal.SIGKILL

    def work_until_verified(self, *objects: GovernedObject) -> None:
        heir = self.process(do="work", lease=20.0)
        wait_until(lambda: all(self.now_of(each).status == "verified" for each in objects), "verified objects")
        heir.send(signal.SIGTERM)
        assert heir.wait() == 0

    def propose(self, content: str = "Ann likes tea", **fields: Any) -> GovernedObject:
        return self.app.objects.propose("memory", content, subject="Ann", evidence=["chat:1"], **fields)

    def now_of(self, it: GovernedObject) -> GovernedObject:
        return self.app.objects.get(it.id, kind=it.kind)

    def verbs_of(self, it: GovernedObject) -> list[str]:
        return [each.verb for each in reversed(list(self.app.objects.history(it.id, kind=it.kind)))]

    def judge(self) -> None:
        """Tables, entries, reservations and the chain of the audit agree."""
        world = self.app.world
        assert [str(each) for each in check_objects(world)] == []
        assert world.store.read(check_budgets) == []
        seal_all(world)
        assert [each.complaints for each in verify_audit(world) if each.complaints] == []


@pytest.fixture
def ground(database_url: str, tmp_path: Path) -> Iterator[Ground]:
    for journey in setting_out(database_url, tmp_path):
        with build(database_url) as app:
            yield Ground(journey, app)


POINTS: dict[str, dict[str, Any]] = {
    "after the claim": {"kill": "FROM horae_objects"},
    "inside the admission": {"kill": "INSERT INTO horae_audit"},
    "after the admission, at the start of the verifier": {"at": "start"},
    "at the end of the verifier": {"at": "end"},
    "inside the settlement": {"kill": "INSERT INTO horae_object_versions"},
    "at the end of the settlement": {"kill": "INSERT INTO horae_audit", "nth": 2},
}


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_a_step_of_a_verification_is_followed_by_another(ground: Ground, point: str) -> None:
    it = ground.propose()
    ground.doomed(do="work", lease=LEASE, **POINTS[point])
    ground.judge()

    ground.work_until_verified(it)

    ground.judge()
    budget = ground.app.budgets.get("verify.memory", "tokens")
    began = len([each for each in ground.journey.effects() if each.what == "started"])
    assert budget.reserved == 0
    assert 4 <= budget.settled <= 10 * (began - 1) + 4, "lost counts as spent, and what never began costs nothing"
    assert ground.verbs_of(it).count("verified") == 1


def test_a_person_killed_inside_a_rollback_has_rolled_back_nothing_and_repeats_it(ground: Ground) -> None:
    root = ground.propose()
    resting = ground.app.objects.propose("experience", "Tea calms Ann", rests_on=[f"memory:{root.id}"])
    ground.app.objects.contest(root.id, reason="it looks forged")
    ground.doomed(do="reject", id=root.id, kill="horae_rollbacks", nth=2)
    assert ground.now_of(root).status == "quarantine"
    ground.judge()

    assert ground.process(do="reject", id=root.id).wait() == 0
    assert (ground.now_of(root).status, ground.now_of(resting).status) == ("rejected_poisoned", "invalidated")
    ground.judge()


def test_a_sealer_killed_while_it_chains_leaves_a_chain_that_goes_on(ground: Ground) -> None:
    for n in range(3):
        ground.propose(f"Ann likes tea {n}")
    ground.doomed(do="seal", kill="chain_seq = v.place")

    ground.judge()
    assert sum(each.entries for each in verify_audit(ground.app.world)) >= 3
