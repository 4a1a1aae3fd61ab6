"""Batches on their pages: progress, jobs, what follows, and an end before their time (S3-54)."""

import re

from horae import Horae
from horae.actions.jobs import claims, endings
from horae.actions.jobs.batch import BatchRequest, create
from horae.actions.jobs.requests import Request
from horae.core.jobs.retry import Retry
from horae.ports.world import World
from tests.console.conftest import Browser, LogIn


def a_batch(world: World, count: int = 3, *, owner: str = "system", name: str = "nightly") -> str:
    """Store a batch whose jobs are tried once, with a callback for each outcome."""
    parts = [Request("resize", {"n": n}, owner=owner, retry=Retry.none()) for n in range(count)]
    followers = {each: Request(f"then.{each}", owner=owner) for each in ("on_end", "on_success", "on_failure")}
    return create(world, BatchRequest(parts, name, owner=owner, callbacks=followers), actor="user/ada")[0].id  # type: ignore[arg-type]


def end(world: World, *, failed: int = 0, done: int = 0) -> None:
    for job in claims.pull(world, worker_id="w", queues=("default",), limit=failed + done):
        if failed:
            endings.fail(world, job.id, job.token, "OSError: the disk is full", final=True)
            failed -= 1
        else:
            endings.ack(world, job.id, job.token, result={"n": 1})


def said(page: str) -> str:
    """Return what a page says, without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", page[page.index('id="content"') :]).split())


def test_a_batch_says_how_far_it_is_and_what_follows(operator: Browser, world: World) -> None:
    batch = a_batch(world)
    assert "None of its 3 jobs has ended yet." in operator.open(f"/batches/{batch}")
    end(world, failed=1, done=1)
    page = operator.open(f"/batches/{batch}")
    assert "2 of 3 jobs have ended; 1 failed." in said(page)
    assert 'value="2" max="3"' in page
    assert "OSError: the disk is full" in page
    assert {"then.on_end", "then.on_success", "then.on_failure"} <= set(said(page).split())
    assert said(page).count("held") == 3


def test_the_jobs_of_a_batch_are_narrowed_to_those_that_failed(operator: Browser, world: World) -> None:
    batch = a_batch(world)
    end(world, failed=1, done=2)
    page = operator.open(f"/batches/{batch}?state=failed")
    jobs = page[page.index('id="jobs-title"') :]
    assert len(re.findall(r'<a class="name"', jobs)) == 1
    assert "OSError" in jobs
    assert "None of its jobs is in this state." in operator.open(f"/batches/{batch}?state=open")


def test_a_batch_of_many_is_shown_page_by_page(operator: Browser, world: World) -> None:
    batch = a_batch(world, 60)
    page = operator.open(f"/batches/{batch}")
    onward = re.search(r'rel="next" href="/console([^"]+)"', page)
    assert onward is not None
    rest = operator.open(onward[1].replace("&amp;", "&"))
    assert rest.count(">resize</a>") == 10
    assert page.count(">resize</a>") == 50


def test_what_is_left_of_a_batch_is_cancelled_with_a_reason(operator: Browser, world: World, app: Horae) -> None:
    batch = a_batch(world)
    end(world, done=1)
    answer = operator.post(f"/batches/{batch}/cancel", reason="wrong day", follow=True)
    assert "What waited is cancelled" in answer.text
    found = app.batches.get(batch)
    assert (found.state, found.succeeded, found.failed, found.cancel_reason) == ("failed", 1, 2, "wrong day")
    assert "It was cancelled: wrong day" in answer.text
    assert f"/batches/{batch}/cancel" not in operator.open(f"/batches/{batch}")
    assert operator.post(f"/batches/{batch}/cancel").status_code == 409


def test_the_list_says_what_is_under_way_and_teaches_where_there_is_none(operator: Browser, world: World) -> None:
    assert "No batch yet." in operator.open("/batches")
    first = a_batch(world, 1)
    end(world, done=1)
    assert "No batch is under way." in operator.open("/batches")
    a_batch(world, 2, name="weekly")
    page = said(operator.open("/batches"))
    assert "One batch is under way." in page
    assert page.index("weekly") < page.index("nightly")
    assert first not in operator.open("/batches?state=open")


def test_a_job_leads_to_its_batch(operator: Browser, world: World, app: Horae) -> None:
    batch = a_batch(world, 1)
    member, follower = app.batches.jobs(batch).page().items[0].id, app.batches.get(batch).on_end
    for job in (member, follower):
        assert f'href="/console/batches/{batch}"' in operator.open(f"/jobs/{job}")


def test_a_tenant_sees_its_own_batches_alone(log_in: LogIn, world: World) -> None:
    theirs, own = a_batch(world, 1), a_batch(world, 1, owner="alice", name="mine")
    alice = log_in("alice", "tasks")
    assert own in alice.open("/batches")
    assert theirs not in alice.open("/batches")
    assert alice.get(f"/batches/{theirs}").status_code == 404
    assert alice.post(f"/batches/{theirs}/cancel").status_code == 404
    assert log_in("system", "read").open(f"/batches/{theirs}").count('method="post"') == alice.open("/").count(
        'method="post"'
    )


def test_a_job_shows_what_the_jobs_before_it_returned(operator: Browser, world: World, app: Horae) -> None:
    first = app.jobs.enqueue("fetch", {"page": 1}).id
    later = app.jobs.enqueue("count", after=[first]).id
    assert "It has not ended yet." in operator.open(f"/jobs/{later}")
    end(world, done=1)
    page = operator.open(f"/jobs/{later}")
    assert "What the jobs before it returned" in page
    assert "&#34;n&#34;: 1" in page[page.index("before-title") :]
