"""Jobs go to workers over a real NATS server, and every answer of theirs is fenced by the store (S0-40)."""

import pytest

from horae import Context, Horae
from tests.bus.dispatching import far_app, relay, working

pytestmark = pytest.mark.server


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Subjects and streams of this test alone."""
    return f"d{abs(hash(request.node.nodeid))}"


async def test_a_worker_without_a_database_runs_what_a_relay_hands_it(app: Horae, nats_url: str, prefix: str) -> None:
    far = far_app(nats_url, prefix)

    @far.job("add", queue="mail")
    def add(ctx: Context, a: int, b: int) -> int:
        ctx.progress({"done": 1})
        ctx.checkpoint({"at": 1})
        return a + b

    made = app.jobs.enqueue("add", {"a": 2, "b": 3}, queue="mail")
    async with relay(app, nats_url, prefix), working(far):
        job = await app.aio.jobs.wait(made.id, timeout=20)

    assert (job.state, job.result, job.progress, job.checkpoint) == ("succeeded", 5, {"done": 1}, {"at": 1})
