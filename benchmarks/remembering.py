"""A year of remembering with scripted truth: facts become false, verifiers err and die, forgeries come back.

Everything follows from the seed: truth, chance, clock and crashes. The verbs, the store and the state machines are the
real ones; only the verifier and the people are played.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from horae.actions.audit import seal_all, verify_audit
from horae.actions.budgets import budgets
from horae.actions.governance import lives, queries, verdicts
from horae.actions.governance.invariants import check_objects
from horae.actions.governance.proposals import propose_many
from horae.actions.governance.verdicts import Given
from horae.actions.jobs import claims, endings
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.machinery import serve_due
from horae.actions.rules import job_rules
from horae.core.access.callers import Caller
from horae.core.governance.budgets import JobBudget, verify_budget
from horae.core.governance.objects import GOVERNANCE, GovernedObject, ObjectFilter
from horae.core.governance.proposals import Proposal
from horae.core.governance.timers import LOOKS
from horae.core.jobs.job import Job, Outcome, govern_name
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.clock import LoadedDice, VirtualClock

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
DAY, STEP, LEASE = timedelta(days=1), timedelta(hours=6), timedelta(minutes=5)
TENANTS = ("ada", "bob")
TOKENS = 400  # that one look costs at most
DECIDES = 0.85  # share of looks that find the truth; the others find nothing
CRASHES = 0.03  # share of attempts whose worker dies: half before, half after its work
FORGED = 0.05  # share of facts that are false from the beginning
ANSWERED = 0.9  # share of days on which a person looks at what is suspected
IN_TIME = timedelta(days=7)  # within which a contest should be resolved
BATCH = 100


@dataclass(frozen=True)
class Fact:
    """Something that is true until an instant."""

    owner: str
    id: str
    subject: str
    content: str
    until: datetime

    def holds(self, now: datetime) -> bool:
        return now < self.until


@dataclass
class Tally:
    """What a year came to."""

    served: int = 0
    stale_served: int = 0
    stale_known: int = 0  # what an agent would have served that believes all it was ever told
    known: int = 0
    looks: int = 0
    crashes: int = 0
    lost: int = 0
    put_back: int = 0
    contested: dict[tuple[str, str], datetime] = field(default_factory=dict)
    resolved: list[timedelta] = field(default_factory=list)
    returned: set[tuple[str, str]] = field(default_factory=set)  # forgeries under new names


@dataclass(frozen=True)
class Result:
    """The figures of one run; shares are between 0 and 1."""

    objects: int
    days: int
    looks: int
    crashes: int
    stale_share_served: float
    stale_share_believed: float
    wrongly_archived: float
    contested_resolved_in_time: float
    resurrections: int
    overspent: int
    audit_complete: float
    tokens_per_object_and_day: float

    def lines(self) -> Iterator[str]:
        told = f"over {self.days} days, {self.looks:,} looks, {self.crashes:,} crashes"
        yield f"objects                      {self.objects:>10,}  {told}"
        believed = f"(believing everything: {self.stale_share_believed:.4f})"
        yield f"stale share served           {self.stale_share_served:>10.4f}  {believed}"
        yield f"wrongly archived             {self.wrongly_archived:>10.4f}  of what is in the archive and still true"
        yield f"contested, resolved in time  {self.contested_resolved_in_time:>10.4f}  within {IN_TIME.days} days"
        yield f"resurrections                {self.resurrections:>10}  of forgeries told again under another id"
        yield f"overspent                    {self.overspent:>10}  tokens above a day's budget"
        yield f"audit complete               {self.audit_complete:>10.4f}  of objects whose entries lead to their state"
        yield f"tokens per object and day    {self.tokens_per_object_and_day:>10.2f}"


class Year:
    """Plays the days."""

    def __init__(self, store: SqlStore, objects: int, days: int, seed: int) -> None:
        self.clock, self.dice, self.chance = VirtualClock(BEGIN), LoadedDice(seed), random.Random(seed)
        self.world = World(store, self.clock, self.dice, rules=job_rules(self.dice))
        self._declare_verifier()
        self.days, self.tally = days, Tally()
        self.facts = {(each.owner, each.id): each for each in self._facts(objects)}

    def _declare_verifier(self) -> None:
        """Store what a look may cost at most, as a process with this verifier does when it starts."""
        budget = JobBudget(verify_budget("memory"), {"calls": 1, "tokens": TOKENS})
        stored = StoredDefinition(govern_name("memory"), GOVERNANCE, tenants=True, budget=budget)
        store_definitions(self.world, [stored])

    def _facts(self, count: int) -> Iterator[Fact]:
        for number in range(count):
            lasts = DAY * self.chance.uniform(0, 2 * self.days)
            until = BEGIN if self.chance.random() < FORGED else BEGIN + lasts
            subject = f"thing {number % max(1, count // 4)}"
            yield Fact(TENANTS[number % 2], f"mem_{number:06}", subject, f"{subject} is {number}", until)

    def run(self) -> Result:
        """Live through the days and return what they came to."""
        tokens = TOKENS * max(2, len(self.facts) // 10)
        for owner in TENANTS:
            budgets.set_budget(self.world, "verify.memory", "tokens", tokens, owner=owner)
            self._propose(owner, [each for each in self.facts.values() if each.owner == owner])
        for day in range(self.days):
            self._serve()
            if day % 30 == 29:
                self._tell_again(day)
            if self.chance.random() < ANSWERED:
                self._answer()
            for _ in range(int(DAY / STEP)):
                self._work()
                self.clock.advance(STEP)
            self._watch()
        return self._result()

    # -- agents ----------------------------------------------------------------------------------------------------

    def _propose(self, owner: str, facts: list[Fact]) -> None:
        caller = Caller(owner, frozenset({"tasks"}), "agent/aria", agent="aria")
        for begin in range(0, len(facts), 1000):
            new = [
                Proposal("memory", each.content, each.id, each.subject, "aria", evidence=(f"told:{each.id}",))
                for each in facts[begin : begin + 1000]
            ]
            propose_many(self.world, new, owner=owner, caller=caller)

    def _serve(self) -> None:
        """Recall some subjects as an agent would, and use what may be used."""
        now = self.clock.now()
        for _ in range(max(1, len(self.facts) // 20)):
            asked = self.chance.choice(list(self.facts.values()))
            self.tally.known += 1
            self.tally.stale_known += not asked.holds(now)
            for view in queries.recall(self.world, asked.subject, owner=asked.owner, strict=True, limit=20):
                fact = self.facts[asked.owner, view.object.id]
                self.tally.served += 1
                self.tally.stale_served += not fact.holds(now)
                if view.object.state == "verified" and self.chance.random() < 0.3:
                    agent = Caller(asked.owner, frozenset({"tasks"}), "agent/aria", agent="aria")
                    lives.use(self.world, Given(view.object.id, asked.owner, agent, "memory"))

    def _tell_again(self, day: int) -> None:
        """Propose what was rejected once more, under other names."""
        for owner in TENANTS:
            for number, each in enumerate(self._find(owner, "rejected_poisoned")[:5]):
                fact = self.facts[owner, each.id]
                again = Fact(owner, f"mem_again_{day}_{number}", fact.subject.upper(), f"  {fact.content} ", BEGIN)
                self.facts[owner, again.id] = again
                self.tally.returned.add((owner, again.id))
                self._propose(owner, [again])

    # -- verifiers and people ----------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Do what is due; some workers die."""
        for _ in range(1000):
            lost = endings.lose_expired(self.world)
            self.tally.lost += len(lost)
            served = serve_due(self.world, "bench")
            due = claims.claim(self.world, "governance", BATCH, worker_id="bench", lease=LEASE)
            ends = [(job, outcome) for job in due if (outcome := self._attempt(job)) is not None]
            if ends:
                endings.settle(self.world, ends)
            if not (due or lost or served):
                return
        raise AssertionError("the day does not end")

    def _attempt(self, job: Job) -> Outcome | None:
        """Return how an attempt ends; None where its worker died, before its work or after."""
        dies, looks = self.chance.random(), job.action in LOOKS and bool(job.payload["look"])
        if dies < CRASHES:
            self.tally.crashes += 1
            self.tally.looks += looks and dies < CRASHES / 2
            return None
        if not looks:
            return Outcome("succeeded")
        self.tally.looks += 1
        return Outcome("succeeded", result=json.dumps(self._verdict(job)))

    def _verdict(self, job: Job) -> dict[str, Any]:
        fact = self.facts[job.owner, job.object_id or ""]
        spent = {"calls": 1, "tokens": self.chance.randint(TOKENS // 2, TOKENS)}
        if self.chance.random() > DECIDES:
            return {"verdict": "inconclusive", "cost": spent}
        verdict = "confirmed" if fact.holds(self.clock.now()) else "refuted"
        return {"verdict": verdict, "evidence": [f"look:{job.id}"], "cost": spent}

    def _answer(self) -> None:
        """Let a person look at what is suspected, and say what is true."""
        now = self.clock.now()
        for owner in TENANTS:
            person = Caller(owner, frozenset({"review"}), "user/carol")
            for each in self._find(owner, "quarantine"):
                verb = verdicts.clear if self.facts[owner, each.id].holds(now) else verdicts.reject
                verb(self.world, Given(each.id, owner, person, "memory", evidence=(f"seen:{each.version}",)))

    def _watch(self) -> None:
        """Note which contests began and which ended."""
        now, open_now = self.clock.now(), set()
        for owner in TENANTS:
            for each in self._find(owner, "quarantine"):
                open_now.add((owner, each.id))
                self.tally.contested.setdefault((owner, each.id), each.state_since)
        for key in [key for key in self.tally.contested if key not in open_now]:
            self.tally.resolved.append(now - self.tally.contested.pop(key))

    # -- what it came to ---------------------------------------------------------------------------------------------

    def _find(self, owner: str, *states: str) -> list[GovernedObject]:
        wanted = ObjectFilter(owner, "memory", states)
        return self.world.store.read(lambda tx: tx.objects.find(wanted, limit=100_000, before=None))

    def _result(self) -> Result:
        now, tally, count = self.clock.now(), self.tally, len(self.facts)
        archived = [(owner, each) for owner in TENANTS for each in self._find(owner, "archived")]
        wrong = sum(self.facts[owner, each.id].holds(now) for owner, each in archived)
        alive = {(owner, each.id) for owner in TENANTS for each in self._find(owner, "verified", "active")}
        broken = {each.about for each in check_objects(self.world, most=count)}
        seal_all(self.world)
        sound = not any(each.complaints for each in verify_audit(self.world))
        spent, over = self._spent()
        late = sum(now - since > IN_TIME for since in tally.contested.values())
        in_time = sum(each <= IN_TIME for each in tally.resolved)
        return Result(
            objects=count,
            days=self.days,
            looks=tally.looks,
            crashes=tally.crashes,
            stale_share_served=tally.stale_served / max(1, tally.served),
            stale_share_believed=tally.stale_known / max(1, tally.known),
            wrongly_archived=wrong / max(1, len(archived)),
            contested_resolved_in_time=in_time / max(1, len(tally.resolved) + late),
            resurrections=len(tally.returned & alive),
            overspent=over,
            audit_complete=(1 - len(broken) / count) if sound else 0.0,
            tokens_per_object_and_day=spent / count / self.days,
        )

    def _spent(self) -> tuple[int, int]:
        """Return all tokens that were settled, and by how many a day's budget was ever exceeded."""
        spent = over = 0
        for owner in TENANTS:
            for each in budgets.history(self.world, "verify.memory", "tokens", owner=owner, limit=self.days + 2):
                spent += each.settled
                over = max(over, each.settled + each.reserved - (each.capacity or 0))
        return spent, max(0, over)
