"""Schemathesis over the whole OpenAPI document, against a running server: as the operator, as a tenant, as nobody.

Every check that Schemathesis knows is on: no 5xx, only documented statuses, content types and bodies, invalid data
refused, authentication not ignored. That is eleven thousand edge cases as the operator and a few random ones as each
caller, a minute and a half of processor time. ``HORAE_FUZZ_SECONDS=300`` makes each of the three runs that long, with
random cases as long as there is time. One worker, because Hypothesis describes lambdas in caches that two threads of
Schemathesis break; two were not faster.
"""

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from horae.outgoing.encryption import sealer_from
from horae.service.options import Options
from tests.support.serving import Served, serving

pytestmark = pytest.mark.slow

SECONDS = int(os.environ.get("HORAE_FUZZ_SECONDS", "0"))
KEY = base64.urlsafe_b64encode(b"k" * 32).decode()
# What a schema cannot say (rules over several fields, cursors, names of queues) is refused with 422, and said in words.
# Keys and names may contain "/", and an id may be called "pull": there one address belongs to two templates, so which
# methods it has is for test_security.
SETTINGS = """
[phases.coverage]
unexpected-methods = []

[checks]
unsupported_method.enabled = false
allow_header_conformance.enabled = false
positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404", "409", "412", "422"]
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Nobody waits long, and nobody is too fast."""
    options = Options(
        version="test",
        longest_wait=timedelta(milliseconds=50),
        longest_stream=timedelta(milliseconds=50),
        sealer=sealer_from({"HORAE_SECRET_KEY": KEY}),
    )
    with serving(f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'horae.db'}", options) as running:
        yield running


@pytest.mark.timeout(900 + 2 * SECONDS)  # the bound: a minute and a half on an idle machine
@pytest.mark.parametrize(
    ("owner", "scopes", "phases", "examples"),
    [
        ("system", ("admin",), "examples,coverage,fuzzing", 1),
        ("alice", ("tasks", "worker"), "examples,fuzzing", 2),
        ("", (), "fuzzing", 1),
    ],
    ids=["operator", "tenant", "nobody"],
)
def test_every_operation_keeps_to_its_document(
    owner: str, scopes: tuple[str, ...], phases: str, examples: int, served: Served, tmp_path: Path
) -> None:
    """Security checks 1 and 15; design 9: the OpenAPI document is true."""
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    token = ["-H", f"Authorization: Bearer {served.token(owner, *scopes)}"] if owner else []
    how = ["--phases", phases, "-n", str(examples)]
    if SECONDS:
        how = ["--phases", "examples,coverage,fuzzing,stateful", "-n", "100", "--max-time", str(SECONDS)]
    ended = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json", *token, *how,
            "--seed", "1", "--workers", "1", "--request-timeout", "30", "--continue-on-failure", "--warnings", "off",
            "--no-color",
        ],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-2_000:]
