"""``horae demo governance``: five stories told from their entries, each ending with its proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

PROOFS = {
    1: "it is active; the next look, 2030-02-18, is the due time of its one job; each confirmation doubles the span",
    2: "what rested on it is invalidated and refuted, 1 decision taken back; told again under another id it is in "
    "quarantine at once",
    3: "2 looks, no more than its budget of 2; it is stale/uncertain, mode conservative, and is left out of a strict "
    "recall",
    4: "0 of 4 decisions of high risk were executed; the database itself would refuse one that is",
    5: "candidate -> verified -> stale -> archived -> stale_uncertain -> active: never straight from the archive to "
    "active",
}
NORMAL = """\
1. The normal path: verified, used, looked at again in time.

2030-01-07 09:00  mem_hours proposed        candidate                               agent/aria
2030-01-07 09:00  mem_hours verified        candidate -> verified                   verify: confirmed
2030-01-08 09:00  mem_hours used            verified -> active                      agent/aria
2030-01-21 09:00  mem_hours confirmed       active                                  revalidate: confirmed

   proof: {proof}

   proof: 9 entries, their chain is valid; every object has its one planned job
"""


def proofs(out: str) -> list[str]:
    return [line.partition("proof: ")[2] for line in out.splitlines() if "proof: " in line]


def test_five_stories_are_told_and_each_is_proven(horae: Command) -> None:
    ended = horae("demo", "governance")

    assert (ended.code, ended.err) == (0, "")
    *told, whole = proofs(ended.out)
    assert told == list(PROOFS.values())
    assert whole.endswith("their chain is valid; every object has its one planned job")


def test_one_story_is_told_from_its_entries(horae: Command) -> None:
    assert horae("demo", "governance", "--story", "1").out == NORMAL.format(proof=PROOFS[1])


@pytest.mark.slow
@pytest.mark.parametrize("story", [1, 2, 4])
def test_a_process_killed_inside_the_verifier_loses_an_attempt_and_no_verdict(horae: Command, story: int) -> None:
    """A real child and a real SIGKILL."""
    ended = horae("demo", "governance", "--story", str(story), "--crash")

    assert "  proposed" not in ended.out.splitlines()[3]
    assert " lost " in ended.out
    assert proofs(ended.out)[1] == (
        "killed inside the verifier: 1 attempt lost and handed on, no verdict was applied twice"
    )


def test_as_json_every_entry_has_its_evidence(horae: Command) -> None:
    lines = [json.loads(line) for line in horae("demo", "governance", "--story", "2", "--json").out.splitlines()]

    entries = [each for each in lines if each["event"] == "entry"]
    assert [each["verb"] for each in entries[:2]] == ["proposed", "verified"]
    assert all(each["evidence"] for each in entries)
    assert {"forged", "invalidated", "refuted"} <= {each["verb"] for each in entries}
    assert [each["event"] for each in lines if each["event"] != "entry"] == ["story", "proved", "proved"]


def test_the_database_is_kept_to_look_at(horae: Command, tmp_path: Path) -> None:
    kept = tmp_path / "kept.db"
    horae("demo", "governance", "--story", "5", "--keep", str(kept))

    shown = horae("object", "show", "mem_ferry", "--json", "--db", f"sqlite:///{kept}").json
    assert shown["status"] == "active"
    assert horae("demo", "governance", "--keep", str(kept)).code != 0
