"""Secrets at rest: only the right key, for the right owner and name, on untouched bytes."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.errors import ConfigurationError, SecretsLocked
from horae.outgoing import KeySealer, sealer_from
from horae.ports.access import Sealer
from tests.support.refusals import refused

CANARY = "CANARY-5f3a"
FIRST, SECOND = b"a" * 32, b"b" * 32


def sealer(*keys: bytes) -> Sealer:
    return KeySealer(*(keys or (FIRST,)))


@given(st.text(max_size=50), st.text(max_size=50), st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_what_was_sealed_opens_again_and_only_in_its_place(owner: str, name: str, text: str) -> None:
    sealed = sealer().seal(owner, name, text)

    assert sealer().open(owner, name, sealed) == text
    assert sealed.isascii()
    for elsewhere in ((name + "x", owner), (owner + "x", name), (owner, name + "x"), (owner + name, "")):
        if elsewhere != (owner, name):
            with pytest.raises(SecretsLocked):
                sealer().open(*elsewhere, sealed)


def test_the_same_text_is_sealed_differently_each_time() -> None:
    assert len({sealer().seal("alice", "shop", CANARY) for _ in range(100)}) == 100


def test_a_changed_byte_does_not_open() -> None:
    sealed = sealer().seal("alice", "shop", CANARY)
    head, _, encoded = sealed.rpartition(".")
    content = bytearray(base64.urlsafe_b64decode(encoded))
    for place in range(len(content)):
        changed = bytes(content[:place]) + bytes([content[place] ^ 1]) + bytes(content[place + 1 :])
        with pytest.raises(SecretsLocked) as refusal:
            sealer().open("alice", "shop", f"{head}.{base64.urlsafe_b64encode(changed).decode()}")
        assert CANARY not in str(refusal.value)


@pytest.mark.parametrize("sealed", ["", "v1", "v1.", "v2.a.b", "v1..", "v1.000000000000.AAAA", "nonsense", "é.é.é"])
def test_what_was_never_sealed_does_not_open(sealed: str) -> None:
    with pytest.raises(SecretsLocked):
        sealer().open("alice", "shop", sealed)


@pytest.mark.parametrize("rest", ["", "!", "AAAA", "é"])
def test_a_cut_text_does_not_open(rest: str) -> None:
    head = sealer().seal("alice", "shop", CANARY).rpartition(".")[0]
    with pytest.raises(SecretsLocked):
        sealer().open("alice", "shop", f"{head}.{rest}")


def test_the_first_key_seals_and_all_open() -> None:
    old, both, new = sealer(FIRST), sealer(SECOND, FIRST), sealer(SECOND)

    assert both.open("a", "n", old.seal("a", "n", CANARY)) == CANARY
    assert new.open("a", "n", both.seal("a", "n", CANARY)) == CANARY
    assert both.is_current(new.seal("a", "n", CANARY))
    assert not both.is_current(old.seal("a", "n", CANARY))
    with refused(SecretsLocked, "sealing_key_missing", setting="HORAE_SECRET_KEY"):
        new.open("a", "n", old.seal("a", "n", CANARY))


ENCODED = [
    base64.urlsafe_b64encode(b"\xff" * 32).decode(),
    base64.b64encode(b"\xff" * 32).decode(),
    base64.urlsafe_b64encode(b"\xff" * 32).decode().rstrip("="),
    (b"\xff" * 32).hex(),
    (b"\xff" * 32).hex().upper(),
]


@pytest.mark.parametrize("text", ENCODED)
def test_a_key_is_read_in_every_usual_spelling(text: str) -> None:
    read = sealer_from({"HORAE_SECRET_KEY": f" {text}\n"})

    assert read is not None
    assert read.open("a", "n", sealer(b"\xff" * 32).seal("a", "n", CANARY)) == CANARY


def test_several_keys_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{FIRST.hex()},\n{SECOND.hex()}\n")
    read = sealer_from({"HORAE_SECRET_KEY": "", "HORAE_SECRET_KEY_FILE": str(file)})

    assert read is not None
    assert read.is_current(sealer(FIRST).seal("a", "n", CANARY))
    assert read.open("a", "n", sealer(SECOND).seal("a", "n", CANARY)) == CANARY


@pytest.mark.parametrize("environment", [{}, {"HORAE_SECRET_KEY": " "}, {"HORAE_SECRET_KEY_FILE": ""}])
def test_without_a_key_there_is_no_sealer(environment: dict[str, str]) -> None:
    assert sealer_from(environment) is None


@pytest.mark.parametrize("text", [CANARY, "a" * 31, f"{'aa' * 32},{CANARY}", "ä" * 32])
def test_a_key_that_is_none_is_refused_without_being_repeated(text: str) -> None:
    with refused(ConfigurationError, "key_unreadable", setting="HORAE_SECRET_KEY") as refusal:
        sealer_from({"HORAE_SECRET_KEY": text})
    assert text not in str(refusal.value)
    assert CANARY not in str(refusal.value)


def test_a_file_that_cannot_be_read_or_is_empty_is_refused(tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty", tmp_path / "binary"
    empty.touch()
    binary.write_bytes(b"\xff\xfe")
    for path in (empty, binary, tmp_path / "missing", tmp_path):
        reason = "key_file_empty" if path is empty else "key_file_unreadable"
        with refused(ConfigurationError, reason, setting="HORAE_SECRET_KEY", path=str(path)):
            sealer_from({"HORAE_SECRET_KEY_FILE": str(path)})


def test_nothing_shows_the_key() -> None:
    assert FIRST.decode() not in repr(sealer(FIRST))
    assert FIRST.decode()[:8] not in sealer(FIRST).seal("alice", "shop", CANARY)
