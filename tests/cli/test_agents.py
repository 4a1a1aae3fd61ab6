"""``horae attention serve`` and ``anchor``: an agent as a process, and a head of its journal in a file."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from horae.app import Horae
from horae.attention import Attention
from horae.core.attention.lanes import Lane
from tests.cli.conftest import Command, Process

DATABASE = "sqlite:///shared.db"
MODULE = """
import sys
import threading
from horae.attention import Act, Attention, Done, Facts

agent = Attention("ops", "sqlite:///shared.db")

@agent.action(effect="once", timeout=__import__("datetime").timedelta(hours=1))
def hang(step):
    print("it hangs", file=sys.stderr, flush=True)
    threading.Event().wait()

@agent.cognition("quick")
def quick(turn):
    return Done(turn.payload)

@agent.cognition("slow")
def slow(turn):
    return Done([fact.kind for fact in turn.facts]) if turn.number > 1 else Act("hang")
"""
Start = Callable[..., Process]


@pytest.fixture
def project(environment: Path) -> Path:
    (environment / "ops.py").write_text(MODULE)
    return environment


def lane_of(agent: Attention) -> Lane:
    return agent.snapshot().lane


@pytest.mark.slow
def test_a_served_agent_works_and_gives_its_lane_back_at_a_signal(project: Path, start: Start) -> None:
    with Horae(DATABASE) as app:
        agent = Attention("ops", app)
        task = agent.add("quick", {"n": 1}).task.id
        process = start("attention", "serve", "ops:agent", "--json")
        begun: dict[str, Any] = process.until("started")
        assert agent.result(task, timeout=timedelta(seconds=60)) == {"n": 1}
        assert lane_of(agent).driver == begun["driver"]
        process.started.send_signal(signal.SIGTERM)
        assert process.ended().code == 0
        assert (lane_of(agent).driver, lane_of(agent).leased_until) == (None, None)


@pytest.mark.slow
def test_an_action_that_outlasts_the_grace_is_left_and_the_lane_is_free(project: Path, start: Start) -> None:
    with Horae(DATABASE) as app:
        agent = Attention("ops", app)
        agent.add("slow")
        process = start("attention", "serve", "ops:agent", "--grace", "100ms")
        process.until_it_says("it hangs")
        process.started.send_signal(signal.SIGTERM)
        ended = process.ended()
        assert (ended.code, "in the middle of a step" in ended.out + ended.err) == (0, True)
        assert lane_of(agent).driver is None  # the next driver need not wait, and tells cognition that it is unknown


def test_an_agent_that_is_not_there_is_refused_with_those_that_are(project: Path, horae: Command) -> None:
    ended = horae("attention", "serve", "ops:nobody")
    assert (ended.code, "ops:agent" in ended.err) == (2, True)


@pytest.fixture
def keys(environment: Path) -> tuple[str, str]:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (environment / "head.key").write_bytes(private)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (environment / "head.pub").write_bytes(public)
    return "head.key", "head.pub"


@pytest.mark.slow
def test_a_signed_head_holds_until_the_past_is_rewritten(
    environment: Path, horae: Command, keys: tuple[str, str]
) -> None:
    key, public = keys
    with Horae(DATABASE) as app:
        agent = Attention("ops", app)
        agent.add("quick")
        signed = horae("attention", "anchor", "--key", key, "--db", DATABASE, "--json")
        (environment / "head.json").write_text(json.dumps(signed.json))
        agent.add("quick")
        check = ("attention", "anchor", "--check", "head.json", "--public-key", public, "--db", DATABASE, "--json")
        assert horae(*check).json == {"lane": "ops", "sound": True, "complaints": []}
        (environment / "head.json").write_text(json.dumps({**signed.json, "seq": 1}))
        forged = horae(*check)
        assert (forged.code, len(forged.json["complaints"])) == (6, 2)  # the signature, and the line that it names
    assert horae("attention", "anchor", "--db", DATABASE).code == 2
