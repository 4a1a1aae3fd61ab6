"""Three real NATS servers, relays and workers in processes of their own, killed in the middle (S0-40)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bus.soaking import BusSoak
from tests.support.kinds import nats_cluster

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(400)]  # nine processes on a busy machine


@pytest.fixture
def soak(sqlite_database_url: str, own_server: Callable[..., Any], tmp_path: Path) -> Iterator[BusSoak]:
    made = BusSoak(sqlite_database_url, [own_server(kind) for kind in nats_cluster()], tmp_path, rate=8)
    try:
        yield made
    finally:
        made.close()


def test_a_killed_leader_relay_and_worker_lose_and_double_nothing(
    soak: BusSoak, capsys: pytest.CaptureFixture[str]
) -> None:
    soak.start()
    first = soak.time_to_go_on()

    leader, after_leader = soak.kill_leader()
    soak.kill(soak.acting_relay(), soak.relay)
    after_relay = soak.time_to_go_on()
    leader.start()
    soak.kill(soak.workers[0], soak.worker)
    after_worker = soak.time_to_go_on()
    code = soak.end_worker()

    found = soak.finish()
    with capsys.disabled():
        print(
            f"\n{found}; seconds until a new job was done: at the start {first:.1f}, after the leader was killed "
            f"{after_leader:.1f}, the relay {after_relay:.1f}, a worker {after_worker:.1f}"
        )
    assert found["states"] == {"succeeded": found["jobs"]}  # nothing is lost,
    assert found["without effect"] == 0
    assert found["doubled"] == 0  # and nothing done twice but by an attempt that followed a lost one
    assert code == 0
