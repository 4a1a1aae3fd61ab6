"""The verbs of tenants: what the operator decides about one."""

import pytest

from horae.actions.access import owners
from horae.core.access.owners import OwnerSettings
from horae.errors import InvalidInput
from horae.ports.world import World


def test_a_tenant_that_nobody_decided_about_is_like_everybody(world: World) -> None:
    assert owners.get_owner(world, "alice") == OwnerSettings()
    assert owners.find_owners(world) == []


def test_a_decision_is_kept_and_the_audit_says_what_it_was_before(world: World) -> None:
    first = owners.set_owner(world, "alice", OwnerSettings(max_enabled_tasks=5), actor="ann")
    owners.set_owner(world, "alice", OwnerSettings(("10.1.0.0/16",), True, (8080,)), actor="ann")
    owners.set_owner(world, "alice", OwnerSettings(("10.1.0.0/16",), True, (8080,)), actor="ann")

    assert first == OwnerSettings(max_enabled_tasks=5)
    assert owners.find_owners(world) == [("alice", OwnerSettings(("10.1.0.0/16",), True, (8080,)))]
    found = world.store.read(lambda tx: tx.audit.find(object_id="alice", limit=10, before=None))
    latest = found[0][1]
    assert len(found) == 2
    assert (latest.actor, latest.verb, latest.object_type) == ("ann", "set", "owner")
    assert latest.before["max_enabled_tasks"] == 5
    assert "max_enabled_tasks" not in latest.after
    assert latest.after["ports"] == [8080]


def test_what_others_keep_beside_it_stays(world: World) -> None:
    world.store.transact(lambda tx: tx.owners.put("alice", {"theirs": 1}, world.clock.now()))

    owners.set_owner(world, "alice", OwnerSettings(allow_http=True))

    assert world.store.read(lambda tx: tx.owners.settings("alice"))["theirs"] == 1


@pytest.mark.parametrize(
    "settings",
    [
        OwnerSettings(("0.0.0.0/0",)),
        OwnerSettings(("10.0.0.1/8",)),
        OwnerSettings(("everywhere",)),
        OwnerSettings(("10.1.0.0/16",) * 101),
        OwnerSettings(ports=(0,)),
        OwnerSettings(ports=(65536,)),
        OwnerSettings(ports=("443",)),  # type: ignore[arg-type]
        OwnerSettings(ports=(True,)),
        OwnerSettings(allow_http="yes"),  # type: ignore[arg-type]
        OwnerSettings(max_enabled_tasks=-1),
        OwnerSettings(max_enabled_tasks=10**7),
        OwnerSettings(weight=0),
        OwnerSettings(weight=1001),
        OwnerSettings(weight=1.5),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_kept(world: World, settings: OwnerSettings) -> None:
    with pytest.raises(InvalidInput):
        owners.set_owner(world, "alice", settings)
    assert owners.find_owners(world) == []


@pytest.mark.parametrize("name", ["", " a", "a\x00", "a" * 256])
def test_a_name_that_cannot_be_stored_is_refused(world: World, name: str) -> None:
    with pytest.raises(InvalidInput):
        owners.set_owner(world, name, OwnerSettings())
    with pytest.raises(InvalidInput):
        owners.get_owner(world, name)
    with pytest.raises(InvalidInput):
        owners.find_owners(world, after=name)


def test_rules_follow_the_settings() -> None:
    strict, loose = OwnerSettings().rules, OwnerSettings(("10.1.0.0/16",), allow_http=True).rules

    assert (strict.schemes, strict.ports, strict.networks) == ({"https"}, {443, 8443}, ())
    assert (loose.schemes, loose.ports) == ({"http", "https"}, {80, 443, 8443})
    assert [str(network) for network in loose.networks] == ["10.1.0.0/16"]
    assert OwnerSettings(ports=(9000,)).rules.ports == {9000}
    assert not loose.trusted
