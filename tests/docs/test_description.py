"""The description of the HTTP API is committed, and changes only with a word in the changelog.

`openapi-released.json` holds a digest of each operation and model of the last release (before the first: of the day on
which the description was committed). A release writes it anew: python -m tests.docs.test_description
"""

import json
import re
from pathlib import Path

import pytest

from scripts.description import digests
from tests.docs.snippets import ROOT
from tests.docs.test_public_names import unreleased_section

COMMITTED = ROOT / "docs" / "reference" / "openapi.json"
RELEASED = Path(__file__).with_name("openapi-released.json")


def unannounced(before: dict[str, str], now: dict[str, str], unreleased: str) -> list[str]:
    """Return the operations and models that were added, removed or changed and that no code span mentions."""
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    said = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", unreleased))))
    return sorted(changed - said)


def committed() -> dict[str, str]:
    return digests(json.loads(COMMITTED.read_text(encoding="utf-8")))


def test_every_change_of_the_description_is_in_the_changelog() -> None:
    """The file itself is compared with the code by test_reference."""
    before = json.loads(RELEASED.read_text(encoding="utf-8"))

    assert unannounced(before, committed(), unreleased_section()) == []


@pytest.mark.parametrize(
    ("now", "said", "missing"),
    [
        ({"get_job": "1"}, "", []),
        ({"get_job": "2"}, "", ["get_job"]),
        ({"get_job": "2"}, "- `get_job` answers with `rerun_of`.", []),
        ({"get_job": "2"}, "- get_job answers.", ["get_job"]),
        ({"get_job": "1", "Job": "1"}, "", ["Job"]),
        ({}, "- `get_job` is gone.", []),
    ],
)
def test_a_change_without_a_word_is_found(now: dict[str, str], said: str, missing: list[str]) -> None:
    assert unannounced({"get_job": "1"}, now, said) == missing


def test_words_for_people_may_change_without_a_word() -> None:
    def model(**more: str) -> dict[str, object]:
        return {"paths": {}, "components": {"schemas": {"Job": {"properties": {"id": {"type": "string", **more}}}}}}

    assert digests(model(description="Its id.")) == digests(model())
    assert digests(model(format="uuid")) != digests(model())


if __name__ == "__main__":
    RELEASED.write_text(json.dumps(committed(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
