"""Policies and personas, as people have set them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from horae.core.governance.personas import Persona
from horae.core.governance.policies import StoredPolicy
from horae.errors import Conflict
from horae.stores.tables.governance import PERSONAS, POLICIES, personas, policies

KEY = (policies.c.owner, policies.c.agent, policies.c.kind)


class Policies:
    """Policies: every version stays, the highest one holds."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def current(self, owners: Collection[str]) -> list[StoredPolicy]:
        """Return the policies that hold for these owners, by owner, agent and kind."""
        highest = select(*KEY, func.max(policies.c.version).label("version")).where(policies.c.owner.in_(owners))
        last = highest.group_by(*KEY).subquery()
        query = select(*POLICIES.select).join_from(
            policies,
            last,
            (policies.c.owner == last.c.owner)
            & (policies.c.agent == last.c.agent)
            & (policies.c.kind == last.c.kind)
            & (policies.c.version == last.c.version),
        )
        return [POLICIES.read(row) for row in self.connection.execute(query.order_by(*KEY))]

    def history(self, owner: str, agent: str, kind: str, *, limit: int = 100) -> list[StoredPolicy]:
        same = (policies.c.owner == owner, policies.c.agent == agent, policies.c.kind == kind)
        query = select(*POLICIES.select).where(*same).order_by(policies.c.version.desc()).limit(limit)
        return [POLICIES.read(row) for row in self.connection.execute(query)]

    def add(self, policy: StoredPolicy) -> None:
        try:
            self.connection.execute(insert(policies), POLICIES.row(policy))
        except IntegrityError as problem:
            raise Conflict("policy_changed", agent=policy.agent, kind=policy.kind) from problem


class Personas:
    """Personas of agents."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, owner: str, agent: str, *, lock: bool = False) -> Persona | None:
        query = select(*PERSONAS.select).where(personas.c.owner == owner, personas.c.agent == agent)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else PERSONAS.read(row)

    def find(self, owners: Collection[str], *, lock: bool = False) -> list[Persona]:
        """Return the personas of these owners, by owner and agent."""
        query = select(*PERSONAS.select).where(personas.c.owner.in_(owners))
        query = query.order_by(personas.c.owner, personas.c.agent)
        return [PERSONAS.read(row) for row in self.connection.execute(query.with_for_update() if lock else query)]

    def put(self, persona: Persona) -> None:
        same = (personas.c.owner == persona.owner, personas.c.agent == persona.agent)
        self.connection.execute(delete(personas).where(*same))
        self.connection.execute(insert(personas), PERSONAS.row(persona))
