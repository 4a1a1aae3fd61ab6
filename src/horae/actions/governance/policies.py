"""The verbs of policies: the numbers by which objects are governed, per owner, agent and kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from horae.actions.governance.reasons import private_reason
from horae.core.access.callers import Caller
from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import EVERY_AGENT, agent_name
from horae.core.governance.machines import KINDS
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import BUILT_IN, Policy, StoredPolicy, resolve, settings_from
from horae.core.time.instants import EPOCH
from horae.errors import InvalidInput, VersionConflict
from horae.ports.store import Tx
from horae.ports.world import World

POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of some owners, as they hold now."""

    known: Mapping[tuple[str, str, str], Policy] = field(default_factory=dict)

    def of(self, it: GovernedObject) -> Policy:
        """Return the policy that holds for an object: its agent's, or that of all agents, or the built-in one."""
        mine = self.known.get((it.owner, it.agent, it.kind))
        return mine or self.known.get((it.owner, EVERY_AGENT, it.kind)) or BUILT_IN


def policies_of(tx: Tx, owners: Collection[str]) -> Policies:
    stored = tx.policies.current(sorted(owners)) if owners else []
    return Policies({(each.owner, each.agent, each.kind): resolve(each) for each in stored})


def set_policy(
    world: World,
    kind: str,
    settings: Mapping[str, Any],
    *,
    owner: str,
    caller: Caller,
    agent: str = EVERY_AGENT,
    expected_version: int | None = None,
    reason: str = "",
) -> StoredPolicy:
    """Set the policy of a kind as a whole; what is not mentioned is as in the built-in one.

    Objects follow it from their next action on; ``replan`` lets them follow at once.
    """
    _known(kind)
    kept, whose, now = settings_from(settings), agent_name(agent), world.clock.now()

    def write(tx: Tx) -> StoredPolicy:
        before = next(iter(tx.policies.history(owner, whose, kind, limit=1)), None)
        version = 0 if before is None else before.version
        if expected_version is not None and expected_version != version:
            raise VersionConflict(
                "policy_version_old", agent=whose, kind=kind, version=version, expected=expected_version
            )
        if before is not None and before.settings == kept:
            return before
        after = StoredPolicy(owner, whose, kind, version + 1, kept, now, caller.actor)
        tx.policies.add(after)
        entry = Entry(
            now, caller.actor, "set", POLICY, f"{whose}/{kind}", owner,
            before={} if before is None else {"version": version, **before.settings},
            after={"version": after.version, **kept}, evidence=("none",), event_kind="policy_override",
            **private_reason(world, reason),
        )  # fmt: skip
        tx.audit.append(entry)
        return after

    return world.route(owner=owner).store.transact(write)


def get_policy(world: World, kind: str, *, owner: str, agent: str = EVERY_AGENT) -> StoredPolicy:
    """Return the policy that holds for an agent and a kind; version 0 is the built-in one."""
    _known(kind)
    whose = agent_name(agent)

    def read(tx: Tx) -> StoredPolicy:
        for name in dict.fromkeys((whose, EVERY_AGENT)):
            found = tx.policies.history(owner, name, kind, limit=1)
            if found:
                return found[0]
        return StoredPolicy(owner, EVERY_AGENT, kind, 0, {}, EPOCH, "built-in")

    return world.route(owner=owner).store.read(read)


def find_policies(world: World, *, owner: str) -> list[StoredPolicy]:
    """Return the policies of an owner: for each kind the built-in one first, then those that were set."""
    built_in = [StoredPolicy(owner, EVERY_AGENT, kind, 0, {}, EPOCH, "built-in") for kind in KINDS]
    stored = world.route(owner=owner).store.read(lambda tx: tx.policies.current([owner]))
    return [*built_in, *stored]


def _known(kind: str) -> None:
    if kind not in KINDS:
        raise InvalidInput("choice_unknown", name="kind", value=repr(kind)[:40], choices=KINDS)
