"""The verbs of secrets: sealed in the store, named in the audit, readable only for a call of their owner."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.access import secrets
from horae.core.audit.entries import Entry
from horae.core.outgoing.signatures import SigningSecret
from horae.errors import InvalidInput, NotAllowed, NotFound, QuotaExceeded, SecretsLocked
from horae.outgoing.encryption import KeySealer
from horae.ports.world import World
from horae.testing.clock import NOON, VirtualClock
from tests.support.refusals import refused

CANARY = "CANARY-5f3a-very-secret"
OLD, NEW = b"o" * 32, b"n" * 32
DAY = timedelta(days=1)


@pytest.fixture
def sealer() -> KeySealer:
    return KeySealer(OLD)


def entries(world: World, name: str = "shop") -> list[Entry]:
    found = world.store.read(lambda tx: tx.audit.find(object_id=name, limit=50, before=None))
    return [entry for _, entry in found]


def opened(world: World, sealer: KeySealer, name: str = "shop", owner: str = "alice") -> tuple[str, ...]:
    return secrets.open_secret(world, sealer, name, owner=owner)


def test_a_secret_is_kept_sealed_and_opens_for_its_owner(world: World, sealer: KeySealer) -> None:
    stored = secrets.put_secret(world, sealer, "shop", CANARY, owner="alice", actor="ann")

    assert CANARY not in repr(stored)
    assert opened(world, sealer) == (CANARY,)
    assert opened(world, sealer, owner="bob") == ()
    assert opened(world, sealer, "other") == ()


def test_no_row_and_no_entry_holds_the_value_e6_20(world: World, sealer: KeySealer) -> None:
    """Security check 20: what is stored and what the audit tells does not hold the secret."""
    secrets.put_secret(world, sealer, "shop", CANARY, owner="alice")
    secrets.put_secret(world, sealer, "shop", CANARY + "2", owner="alice", keep_previous_for=DAY)
    secrets.delete_secret(world, "shop", owner="alice")
    secrets.put_secret(world, sealer, "shop", CANARY, owner="alice")

    def dump(tx: Any) -> str:
        rows = [
            tx.connection.exec_driver_sql(f"SELECT * FROM {table}").all() for table in ("horae_secrets", "horae_audit")
        ]
        return repr(rows)

    assert "shop" in world.store.read(dump)
    assert CANARY not in world.store.read(dump)


def test_the_audit_says_who_did_what_and_until_when(world: World, sealer: KeySealer) -> None:
    secrets.put_secret(world, sealer, "shop", secrets.new_signing_text(world), owner="alice", actor="ann")
    secrets.rotate_secret(world, sealer, "shop", owner="alice", actor="ann")
    secrets.delete_secret(world, "shop", owner="alice", actor="ann")

    answer = entries(world)
    assert [(entry.verb, entry.actor, entry.owner) for entry in answer] == [
        ("delete", "ann", "alice"),
        ("rotate", "ann", "alice"),
        ("put", "ann", "alice"),
    ]
    assert answer[1].after == {"previous_until": "2030-01-08T12:00:00Z"}


def test_a_rotated_secret_signs_beside_the_new_one_for_a_while_e6_9(
    world: World, sealer: KeySealer, clock: VirtualClock
) -> None:
    """Security check 9, the last part: both secrets count during a rotation."""
    first = secrets.new_signing_text(world)
    secrets.put_secret(world, sealer, "shop", first, owner="alice")
    stored, second = secrets.rotate_secret(world, sealer, "shop", owner="alice", keep_previous_for=DAY)

    assert stored.previous_until == NOON + DAY
    assert opened(world, sealer) == (second, first)
    assert len(SigningSecret.read(second).key) == 32
    clock.advance(DAY)
    assert opened(world, sealer) == (second,)


def test_a_text_of_ones_own_is_put_anew_and_not_rotated(world: World, sealer: KeySealer) -> None:
    secrets.put_secret(world, sealer, "mail", "Bearer abcdef", owner="alice")

    with refused(NotAllowed, "secret_not_generated"):
        secrets.rotate_secret(world, sealer, "mail", owner="alice")
    secrets.put_secret(world, sealer, "mail", "Bearer uvwxyz", owner="alice", keep_previous_for=DAY)
    assert opened(world, sealer, "mail") == ("Bearer uvwxyz", "Bearer abcdef")


def test_replacing_keeps_the_date_of_birth_and_forgets_the_value_before(
    world: World, sealer: KeySealer, clock: VirtualClock
) -> None:
    secrets.put_secret(world, sealer, "mail", "Bearer abcdef", owner="alice")
    clock.advance(DAY)

    stored = secrets.put_secret(world, sealer, "mail", "Bearer uvwxyz", owner="alice")

    assert (stored.created_at, stored.updated_at, stored.previous) == (NOON, NOON + DAY, None)


def test_only_names_of_ones_own_are_listed(world: World, sealer: KeySealer) -> None:
    for owner, name in [("alice", "b"), ("alice", "a"), ("bob", "c")]:
        secrets.put_secret(world, sealer, name, CANARY, owner=owner)

    assert [each.name for each in secrets.find_secrets(world, owner="alice")] == ["a", "b"]


def test_a_secret_of_somebody_else_does_not_exist(world: World, sealer: KeySealer) -> None:
    secrets.put_secret(world, sealer, "shop", CANARY, owner="alice")

    for verb in (
        lambda: secrets.delete_secret(world, "shop", owner="bob"),
        lambda: secrets.rotate_secret(world, sealer, "shop", owner="bob"),
    ):
        with pytest.raises(NotFound):
            verb()
    assert opened(world, sealer) == (CANARY,)


def test_a_row_moved_to_another_tenant_or_name_does_not_open(world: World, sealer: KeySealer) -> None:
    stored = secrets.put_secret(world, sealer, "shop", CANARY, owner="alice")
    world.store.transact(lambda tx: tx.secrets.put("mallory", stored))

    with refused(SecretsLocked, "secret_changed", name="shop"):
        opened(world, sealer, owner="mallory")


def test_a_tenant_cannot_keep_secrets_without_end(
    world: World, sealer: KeySealer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "MOST", 2)
    for name in ("a", "b", "a"):
        secrets.put_secret(world, sealer, name, CANARY, owner="alice")

    with pytest.raises(QuotaExceeded):
        secrets.put_secret(world, sealer, "c", CANARY, owner="alice")
    secrets.put_secret(world, sealer, "c", CANARY, owner="bob")


def test_after_resealing_the_old_key_can_be_dropped(world: World, sealer: KeySealer) -> None:
    secrets.put_secret(world, sealer, "shop", secrets.new_signing_text(world), owner="alice")
    _, text = secrets.rotate_secret(world, sealer, "shop", owner="alice")
    secrets.put_secret(world, sealer, "mail", CANARY, owner="bob")
    both = KeySealer(NEW, OLD)

    assert secrets.reseal_secrets(world, both) == 2
    assert secrets.reseal_secrets(world, both) == 0
    assert opened(world, KeySealer(NEW))[0] == text
    assert len(opened(world, KeySealer(NEW))) == 2
    assert opened(world, KeySealer(NEW), "mail", "bob") == (CANARY,)
    with pytest.raises(SecretsLocked):
        opened(world, sealer)


WRONG: list[Callable[[World, KeySealer], Any]] = [
    lambda world, sealer: secrets.put_secret(world, sealer, f"whsec_{CANARY}", CANARY, owner="alice"),
    lambda world, sealer: secrets.put_secret(world, sealer, f"a b {CANARY}", CANARY, owner="alice"),
    lambda world, sealer: secrets.put_secret(world, sealer, "shop", "short", owner="alice"),
    lambda world, sealer: secrets.put_secret(world, sealer, "shop", CANARY + "\x00", owner="alice"),
    lambda world, sealer: secrets.put_secret(world, sealer, "shop", CANARY + "\udc80", owner="alice"),
    lambda world, sealer: secrets.put_secret(world, sealer, "shop", CANARY + "\n", owner="alice"),
    lambda world, sealer: secrets.put_secret(world, sealer, "shop", f"whsec_{CANARY}", owner="alice"),
    lambda world, sealer: secrets.put_secret(
        world, sealer, "shop", CANARY, owner="alice", keep_previous_for=timedelta(days=91)
    ),
    lambda world, sealer: secrets.put_secret(
        world, sealer, "shop", CANARY, owner="alice", keep_previous_for=timedelta(seconds=-1)
    ),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_a_secret_is_refused_without_being_repeated(
    world: World, sealer: KeySealer, wrong: Callable[[World, KeySealer], Any]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        wrong(world, sealer)

    assert CANARY not in str(refused.value)
    assert secrets.find_secrets(world, owner="alice") == []
