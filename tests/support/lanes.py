"""Processes that fight over lanes, and what is counted when they are done.

    python -m tests.support.lanes URL 0.1

is one of them: it takes each lane for a few steps, lets go, and tries again; it ends when its parent does. Everything
that happens outside a transaction leaves a row, so that what was done twice can be counted.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import text

from horae import Horae
from horae.attention import Act, Attention, Done, Facts, Rule, Step, Turn, Wait
from horae.core.attention.task import FINAL, Policy
from horae.errors import StoreError
from horae.stores.schema import migrate

ROOT = Path(__file__).parents[2]
LANES = [f"lane-{number}" for number in range(8)]
LEASE = timedelta(seconds=2)
PATIENCE = timedelta(seconds=2)
LEAST = {"kill -9": 2, "added": 30}  # on a slow machine the fight lasts until there were so many
POLICY = Policy(crashes=1_000_000)
EFFECT = "INSERT INTO lane_effects (step_key, action, pid) VALUES (:key, :action, :pid)"
TABLE = "CREATE TABLE lane_effects (step_key VARCHAR(64) NOT NULL, action VARCHAR(20) NOT NULL, pid INTEGER NOT NULL)"
TWO = "SELECT lane_id FROM horae_tasks WHERE state = 'running' GROUP BY lane_id HAVING count(*) > 1"

LIVE = f"SELECT count(*) FROM horae_tasks WHERE state NOT IN ({', '.join(map(repr, sorted(FINAL)))})"
LINES = "SELECT count(*) FROM horae_journal"


def agents(app: Horae) -> list[Attention]:
    """Declare the same errand in every lane: do something once, hear a word or its time-out, do more, book."""
    return [_agent(app, name) for name in LANES]


def _agent(app: Horae, name: str) -> Attention:
    agent = Attention(name, app, policy=POLICY, lease=LEASE)

    def leave(step: Step, action: str) -> Facts:
        with app.engine.begin() as connection:
            connection.execute(text(EFFECT), {"key": step.key, "action": action, "pid": os.getpid()})
        time.sleep(random.choice([0, 0, 0.01]))
        return Facts()

    @agent.action(effect="once")
    def once(step: Step) -> Facts:
        return leave(step, "once")

    @agent.action(effect="idempotent")
    def again(step: Step) -> Facts:
        return leave(step, "again")

    @agent.action(effect="transactional")
    def book(step: Step, connection: Any) -> Facts:
        connection.execute(text(EFFECT), {"key": step.key, "action": "book", "pid": os.getpid()})
        return Facts()

    @agent.cognition("errand")
    def errand(turn: Turn) -> Any:
        place = turn.context or 0
        if place == 0:
            return Act("once", context=1)
        if place == 1:
            return Wait(turn.payload["word"], timeout=PATIENCE, context=2)
        return Done() if place == 4 else Act("again" if place == 2 else "book", context=place + 1)

    agent.rule(Rule("alarm", do="task", kind="errand", priority=90, payload={"word": "never"}))
    return agent


async def fight(url: str, pause: float) -> None:
    """Take every lane again and again, with pauses of at most so many seconds, until the parent is gone."""
    parent = os.getppid()
    with Horae(url) as app:

        async def drive(agent: Attention) -> None:
            while os.getppid() == parent:
                driver = agent.driver()
                with suppress(StoreError):
                    for _ in range(random.randint(1, 12)):
                        if not await driver.step():
                            break
                with suppress(StoreError):
                    await driver.close()
                await asyncio.sleep(random.uniform(0.005, pause))

        await asyncio.gather(*(drive(agent) for agent in agents(app)))


# -- the judge ---------------------------------------------------------------------------------------------------------


@dataclass
class Battle:
    """Some processes, all lanes, a feeder that speaks to them, and kill -9 every now and then."""

    url: str
    processes: int = 4
    kill_every: float = 5.0
    pause: float = 0.1
    crew: list[subprocess.Popen[bytes]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    posted: Counter[str] = field(default_factory=Counter)

    def run(self, seconds: float, rest: float = 60.0) -> Counter[str]:
        """Fight for so long, then wait until everything has ended, or nothing has changed for *rest* seconds."""
        with Horae(self.url) as app:
            migrate(app.engine)
            with app.engine.begin() as connection:
                connection.execute(text(TABLE))
            everyone = agents(app)
            for agent in everyone:
                agent.post("begin")
                self.posted[agent.name] += 1
            try:
                self.crew = [self._fighter() for _ in range(self.processes)]
                self._feed(app, everyone, seconds)
                self._until_ended(app, rest)
            finally:
                self.dismiss()
            self._count(app)
        return self.counts

    def _fighter(self) -> subprocess.Popen[bytes]:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        command = [sys.executable, "-m", "tests.support.lanes", self.url, str(self.pause)]
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _feed(self, app: Horae, everyone: list[Attention], seconds: float) -> None:
        ends, kills_at, number = time.monotonic() + seconds, time.monotonic() + self.kill_every, 0
        while time.monotonic() < ends or any(self.counts[what] < least for what, least in LEAST.items()):
            number += 1
            agent = random.choice(everyone)
            if len(agent.snapshot().backlog) < 5:
                word = f"word-{number}"
                agent.add("errand", {"word": word}, priority=random.randrange(80), key=f"task-{number}")
                self.counts["added"] += 1
                if random.random() < 0.7:
                    self._post(agent, word, f"event-{number}")
            if random.random() < 0.05:
                self._post(agent, "alarm", f"alarm-{number}")
            with app.engine.connect() as connection:
                self.counts["two running"] += len(connection.execute(text(TWO)).all())
            self.counts["looks"] += 1
            if time.monotonic() >= kills_at:
                kills_at = time.monotonic() + self.kill_every
                self._kill()
            time.sleep(0.02)

    def _post(self, agent: Attention, key: str, event_id: str) -> None:
        agent.post(key, event_id=event_id)
        agent.post(key, event_id=event_id)  # whoever does not hear the answer says it again
        self.posted[agent.name] += 1

    def _kill(self) -> None:
        place = random.randrange(len(self.crew))
        self.crew[place].kill()
        self.crew[place].wait()
        self.crew[place] = self._fighter()
        self.counts["kill -9"] += 1

    def _until_ended(self, app: Horae, rest: float) -> None:
        written, ends = -1, 0.0
        while self._ask(app, LIVE):
            lines = self._ask(app, LINES)
            if lines != written:
                written, ends = lines, time.monotonic() + rest
            elif time.monotonic() > ends:
                return
            time.sleep(0.2)

    @staticmethod
    def _ask(app: Horae, query: str) -> int:
        with app.engine.connect() as connection:
            return int(connection.execute(text(query)).scalar_one())

    def dismiss(self) -> None:
        for process in self.crew:
            process.kill()
        for process in self.crew:
            process.wait()

    def _count(self, app: Horae) -> None:
        from tests.attention.checker import look, unaccounted, wrong_with

        for lane in LANES:
            scene = look(app.world, lane, policy=POLICY)
            self.counts["tasks"] += len(scene.tasks)
            self.counts["not ended"] += sum(task.state not in FINAL for task in scene.tasks)
            self.counts["not completed"] += sum(task.state != "completed" for task in scene.tasks)
            self.counts["events"] += len(scene.events)
            self.counts["events lost"] += abs(self.posted[lane] - len(scene.events))
            self.counts["journal lines"] += len(scene.lines)
            self.counts["takeovers"] += scene.lane.epoch
            self.counts["recoveries"] += sum(line.cause == "recovered" for line in scene.lines)
            self.counts["suspensions"] += sum(line.after == "suspended" for line in scene.lines)
            for complaint in [*wrong_with(scene), *unaccounted(scene, self.posted[lane])]:
                self.counts[f"complaint: {lane}: {complaint}"] += 1
        with app.engine.connect() as connection:
            done = connection.execute(
                text("SELECT action, step_key, count(*) FROM lane_effects GROUP BY action, step_key")
            ).all()
        self.counts["effects"] = sum(count for _, _, count in done)
        self.counts["done twice"] = sum(count > 1 for action, _, count in done if action != "again")

    @property
    def losses(self) -> dict[str, int]:
        """Return the counts that must be zero."""
        bad = ("two running", "not ended", "not completed", "events lost", "done twice")
        return {name: count for name, count in self.counts.items() if count and (name in bad or "complaint" in name)}


if __name__ == "__main__":
    asyncio.run(fight(sys.argv[1], float(sys.argv[2])))
