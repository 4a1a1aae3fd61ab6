"""``shard_key``: what decides about the shard of a job of the house, and within which its keys are unique."""

from datetime import timedelta

import pytest

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.actions.jobs.together import Asked, enqueue_together
from horae.actions.schedules.exclusive import start_exclusively
from horae.api.jobs import room
from horae.api.values import to_public
from horae.core.cluster.numbers import vshard_in
from horae.core.jobs.job import Outcome
from horae.errors import AlreadyRunning, InvalidInput
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from tests.cluster.conftest import Clusters
from tests.cluster.mail import deliver, waiting
from tests.support.refusals import refused

LEASE = timedelta(seconds=30)
SILENCE = timedelta(minutes=5)


def both(shard_key: str | None = None, **more: str) -> Request:
    return Request("mail", {}, key="k", concurrency_key="c", shard_key=shard_key, **more)  # type: ignore[arg-type]


def place_of(world: World, **known: str) -> int:
    assert world.cluster is not None
    return world.cluster.shard_map.vshard_of(**known)


def key_elsewhere(world: World, than: str) -> str:
    """Return a key that another database keeps."""
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    here = shard_map.database_of(shard_map.vshard_of(key=than))
    keys = (f"far-{index}" for index in range(1000))
    return next(key for key in keys if shard_map.database_of(shard_map.vshard_of(key=key)) != here)


def test_two_kinds_of_key_need_a_shard_key_and_are_refused_in_words_without(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    with refused(InvalidInput, "shard_key_needed"):
        jobs.enqueue(world, both())
    made = jobs.enqueue(world, both("a"))
    assert vshard_in(made.number) == place_of(world, shard_key="a")


def test_keys_and_names_are_unique_within_a_shard_key_wherever_its_shard_lives(clusters: Clusters) -> None:
    world, _ = clusters.make(1)  # all of them in one database, where nothing else keeps them apart
    first = jobs.enqueue(world, both("a", unique="n"))
    assert jobs.enqueue(world, both("a", unique="n")).id == first.id
    assert jobs.enqueue(world, both("b", unique="n")).id != first.id
    assert not jobs.enqueue(world, Request("mail", {}, key="k")).deduplicated
    shown = to_public(room.Job, jobs.get(world, first.id))
    assert (shown.key, shown.unique, shown.concurrency_key) == ("k", "n", "c")


def test_a_limit_counts_within_a_shard_key(clusters: Clusters) -> None:
    world, _ = clusters.make(1)
    for shard_key in ("a", "a", "b"):
        jobs.enqueue(world, Request("mail", {}, concurrency_key="c", shard_key=shard_key))
    taken = claims.claim(world.shards()[0], "default", 10, worker_id="w", lease=LEASE)
    assert len(taken) == 2


def test_on_a_single_database_a_shard_key_changes_nothing(clusters: Clusters) -> None:
    world = clusters.open(clusters.urls(1)[0])
    first = jobs.enqueue(world, both("a"))
    assert jobs.enqueue(world, both("b")).id == first.id
    assert jobs.enqueue(world, both()).id == first.id
    assert jobs.get(world, first.id).key == "k"


def test_a_tenant_stays_in_one_shard_whatever_the_shard_key(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    first = jobs.enqueue(world, both("a", owner="acme"))
    assert vshard_in(first.number) == place_of(world, owner="acme")
    assert jobs.enqueue(world, both("b", owner="acme")).id == first.id


def test_a_shard_key_and_a_key_that_are_too_long_together_are_refused(clusters: Clusters) -> None:
    world, _ = clusters.make(1)
    with refused(InvalidInput, "shard_key_long"):
        jobs.enqueue(world, Request("mail", {}, key="k" * 200, shard_key="s" * 60))


def test_concurrent_requests_of_a_service_go_where_their_keys_say(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    asked = [Request("mail", {}, unique=f"n{index}") for index in range(8)]
    made = enqueue_together([Asked(world, each) for each in asked])
    for each, request in zip(made, asked, strict=True):
        assert not isinstance(each, Exception)
        assert vshard_in(each.number) == place_of(world, key=request.unique or "")
    again = enqueue_together([Asked(world, each) for each in asked])
    assert [each.id for each in again if not isinstance(each, Exception)] == [
        each.id for each in made if not isinstance(each, Exception)
    ]


def test_a_job_that_is_run_again_stays_in_its_shard_with_its_limit(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    made = jobs.enqueue(world, both("a"))
    [(shard, job)] = [
        (shard, job)
        for shard in world.shards()
        for job in claims.claim(shard, "default", 10, worker_id="w", lease=LEASE)
    ]
    assert endings.settle(shard, [(job, Outcome("succeeded"))])[job.id] is not None
    again = jobs.rerun(world, made.id)
    assert vshard_in(again.number) == vshard_in(made.number)
    assert jobs.get(world, again.id).concurrency_key == job.concurrency_key


def test_an_exclusive_job_is_refused_while_another_is_alive_in_a_cluster(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for key in ("import-a", "import-b", "import-c"):
        started = start_exclusively(world, Request("load", {}, concurrency_key=key), stale_timeout=SILENCE)
        with pytest.raises(AlreadyRunning):
            start_exclusively(world, Request("load", {}, concurrency_key=key), stale_timeout=SILENCE)
        for shard in world.shards():
            claims.claim(shard, "default", 10, worker_id="w", lease=LEASE)
        assert jobs.get(world, started.id).state == "running"
        with pytest.raises(AlreadyRunning):
            start_exclusively(world, Request("load", {}, concurrency_key=key), stale_timeout=SILENCE)


def test_a_callers_transaction_stores_a_key_in_its_own_shard_and_sends_any_other_there(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    near = "near"
    far = key_elsewhere(world, near)
    assert world.cluster is not None
    store = world.cluster.store_of(world.cluster.shard_map.database_of(place_of(world, key=near)))
    store.transact(lambda tx: jobs.enqueue(world, Request("mail", {}, key=near), connection=tx.connection))
    again = jobs.enqueue(world, Request("mail", {}, key=near))
    assert again.deduplicated
    assert vshard_in(again.number) == place_of(world, key=near)
    sent = store.transact(lambda tx: jobs.enqueue(world, Request("mail", {}, key=far), connection=tx.connection))
    assert vshard_in(sent.number) == place_of(world, key=far)
    deliver(world)
    assert jobs.enqueue(world, Request("mail", {}, key=far)).number == sent.number


# -- jobs that wait for others -----------------------------------------------------------------------------------------


def test_a_job_without_a_key_is_kept_with_the_job_that_it_waits_for(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for index in range(6):
        parent = jobs.enqueue(world, Request("mail", {}, key=f"p{index}"))
        child = jobs.enqueue(world, Request("mail", {}, after=(parent.id,)))
        assert vshard_in(child.number) == vshard_in(parent.number)
        assert jobs.get(world, child.id).held == "needs"


def test_a_job_of_the_same_shard_key_waits_without_a_message(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    together = [Request("mail", {}, key=key, shard_key="order-7") for key in ("p2", "c2")]
    parent = jobs.enqueue(world, together[0])
    child = jobs.enqueue(world, Request("mail", {}, key="c2", shard_key="order-7", after=(parent.id,)))
    assert jobs.get(world, child.id).held == "needs"
    assert waiting(world) == 0
