"""The five stories of ``horae demo governance``: what becomes of memories that come due.

Aria, an agent, remembers things about a shop. A verifier plays the outside world: each story says what it finds. Time
is virtual and jumps to whatever is due next. What is printed is read from the entries of the audit, not from here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from horae.api.application import Acting
from horae.api.governance.object_values import ObjectToVerify
from horae.app import Horae
from horae.core.dataclass import dataclass
from horae.core.governance.answers import Verdict
from horae.testing.lab import Lab

AGENT, PERSON = "aria", "user/carol"
BEGINS = "2030-01-07T09:00:00Z"
DAY = timedelta(days=1)
Look = Callable[[ObjectToVerify], Verdict]


class Stage:
    """The application, its clock, and what its verifier will find."""

    def __init__(
        self, database: Path, *, starts_at: str = BEGINS, before_look: Callable[[], None] | None = None
    ) -> None:
        self.app = Horae()
        self.lab = Lab(self.app, starts_at=starts_at, database=f"sqlite:///{database}")
        self.looks: dict[str, list[Verdict]] = {}  # by object, the last one for ever
        self.looked: list[str] = []
        self.held = timedelta(0)  # for how long a process that died may hold its job
        self.before_look: Callable[[], None] | None = None
        for kind in ("memory", "experience", "cognition"):
            self.app.verifier(kind)(self._look)

    def _look(self, it: ObjectToVerify) -> Verdict:
        if self.before_look is not None:
            self.before_look()
        self.looked.append(it.id)
        found = self.looks.get(it.id, [])
        if not found:
            return Verdict.inconclusive(note="nothing decides it")
        return found.pop(0) if len(found) > 1 else found[0]

    def will_find(self, object_id: str, *verdicts: Verdict) -> None:
        self.looks[object_id] = list(verdicts)

    @property
    def agent(self) -> Acting:
        return self.app.acting_as(f"agent/{AGENT}")

    @property
    def person(self) -> Acting:
        return self.app.acting_as(PERSON)

    def remember(self, kind: Any, object_id: str, content: str, **fields: Any) -> None:
        self.agent.objects.propose(kind, content, id=object_id, agent=AGENT, **fields)

    async def settle(self) -> None:
        """Run what is due; after a restart wait until the lease of the process that died has run out."""
        lease, self.held = self.held, timedelta(0)
        await self.lab.advance(lease)

    async def pass_days(self, days: float) -> None:
        await self.lab.advance(DAY * days)


@dataclass(frozen=True)
class Story:
    """A story, the objects that it is about, and what it proves at its end."""

    number: int
    title: str
    objects: tuple[str, ...]
    play: Callable[[Stage], Awaitable[None]]
    prove: Callable[[Stage], str]


# -- 1 -----------------------------------------------------------------------------------------------------------------


async def normal(stage: Stage) -> None:
    stage.will_find("mem_hours", Verdict.confirmed(evidence=["web:hours"]))
    stage.remember("memory", "mem_hours", "The shop opens at nine", subject="shop", evidence=["chat:1"])
    await stage.pass_days(1)
    stage.agent.objects.use("mem_hours", reason="told a customer")
    await stage.pass_days(14)


def normal_proof(stage: Stage) -> str:
    it = stage.app.objects.get("mem_hours")
    job = stage.app.jobs.get(str(it.job))
    same = "is the due time of its one job" if job.run_at == it.next_action_at else "differs from its job"
    return f"it is {it.status}; the next look, {_day(it.next_action_at)}, {same}; each confirmation doubles the span"


# -- 2 -----------------------------------------------------------------------------------------------------------------


async def forged(stage: Stage) -> None:
    seen = Verdict.confirmed(evidence=["mail:7"])
    stage.will_find("mem_iban", seen)
    stage.remember("memory", "mem_iban", "The supplier has a new IBAN", subject="supplier", evidence=["mail:7"])
    await stage.settle()
    stage.will_find("exp_paid", seen)
    on_memory = {"rests_on": ["memory:mem_iban"], "evidence": ["bank:1"]}
    stage.remember("experience", "exp_paid", "Paying to the new IBAN worked", **on_memory)
    await stage.settle()
    stage.will_find("cog_trust", Verdict.confirmed(evidence=["audit:3"], survived=True))
    on_experience = {"rests_on": ["experience:exp_paid"], "evidence": ["log:1"]}
    stage.remember("cognition", "cog_trust", "Changes by mail can be trusted", **on_experience)
    await stage.settle()
    stage.agent.decide("pay invoice 41", cites=["cognition:cog_trust"], risk="low", agent=AGENT)
    await stage.pass_days(1)
    stage.will_find("mem_iban", Verdict.refuted(evidence=["phone:1"], note="the supplier knows of no new IBAN"))
    stage.person.objects.contest("mem_iban", reason="the mail looks odd", evidence=["mail:8"])
    await stage.settle()
    stage.app.acting_as("user/dave").objects.conclude("mem_iban", "refuted", evidence=["bank:9"], note="not their bank")
    await stage.settle()
    stage.remember("memory", "mem_again", "the supplier has a  NEW IBAN", subject="Supplier", evidence=["mail:9"])


def forged_proof(stage: Stage) -> str:
    states = {each: stage.app.objects.get(each).status for each in ("exp_paid", "cog_trust", "mem_again")}
    undone = [each for each in stage.app.decisions.list(agent=AGENT) if each.rolled_back_at is not None]
    return (
        f"what rested on it is {states['exp_paid']} and {states['cog_trust']}, {len(undone)} decision taken back; "
        f"told again under another id it is in {states['mem_again']} at once"
    )


# -- 3 -----------------------------------------------------------------------------------------------------------------


async def uncertain(stage: Stage) -> None:
    stage.will_find("cog_price", Verdict.inconclusive(note="no price list says so"))
    stage.remember("cognition", "cog_price", "Tea is the cheapest drink", subject="prices", evidence=["chat:3"])
    await stage.pass_days(8)


def uncertain_proof(stage: Stage) -> str:
    it = stage.app.objects.get("cog_price")
    looks = stage.looked.count(it.id)
    served = [each.id for each in stage.app.objects.recall("prices", strict=True)]
    strict = "is still served" if it.id in served else "is left out of a strict recall"
    state = f"{it.status}/{it.epistemic_state}, mode {it.mode}"
    return f"{looks} looks, no more than its budget of 2; it is {state}, and {strict}"


# -- 4 -----------------------------------------------------------------------------------------------------------------


async def blocked(stage: Stage) -> None:
    stage.person.personas.set(AGENT, boundaries=["delete backups"], values=["keep what cannot be made again"])
    stage.will_find("mem_disk", Verdict.inconclusive())
    stage.remember(
        "memory", "mem_disk", "The old disk is not used any more", subject="disk", risk="high", evidence=["chat:4"]
    )
    await stage.settle()
    stage.agent.decide("wipe the old disk", cites=["memory:mem_disk"], risk="high", agent=AGENT)
    stage.agent.decide("Delete  BACKUPS of May", cites=["memory:mem_disk"], risk="low", agent=AGENT)


def blocked_proof(stage: Stage) -> str:
    high = [each for each in stage.app.decisions.list(agent=AGENT) if each.risk == "high"]
    done = sum(each.outcome == "executed" for each in high)
    return f"{done} of {len(high)} decisions of high risk were executed; the database itself would refuse one that is"


# -- 5 -----------------------------------------------------------------------------------------------------------------


async def reinstated(stage: Stage) -> None:
    stage.will_find("mem_ferry", Verdict.confirmed(evidence=["web:ferry"]))
    stage.remember("memory", "mem_ferry", "The ferry runs on Sundays", subject="ferry", evidence=["chat:5"])
    await stage.settle()
    stage.agent.objects.archive("mem_ferry", reason="no travel planned")
    await stage.pass_days(3)
    stage.agent.objects.evidence("mem_ferry", [{"reference": "web:timetable"}], reason="a new timetable")
    await stage.settle()


def reinstated_proof(stage: Stage) -> str:
    entries = reversed(list(stage.app.objects.history("mem_ferry")))
    path = [each.after["status"] for each in entries if each.event_kind == "state_transition"]
    return f"{' -> '.join(path)}: never straight from the archive to active"


STORIES = (
    Story(1, "The normal path: verified, used, looked at again in time.", ("mem_hours",), normal, normal_proof),
    Story(
        2,
        "A forged memory: what rested on it is taken back.",
        ("mem_iban", "exp_paid", "cog_trust", "mem_again"),
        forged,
        forged_proof,
    ),
    Story(3, "Uncertain: looked at twice, then its time is over.", ("cog_price",), uncertain, uncertain_proof),
    Story(4, "A high-risk request on something uncertain: blocked.", ("mem_disk",), blocked, blocked_proof),
    Story(5, "Archived, and back by new evidence.", ("mem_ferry",), reinstated, reinstated_proof),
)


def _day(at: Any) -> str:
    return f"{at:%Y-%m-%d}"
