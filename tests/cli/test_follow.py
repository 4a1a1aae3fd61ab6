"""``horae job logs``, ``horae job watch`` and ``horae top``: near the database and behind a service."""

from __future__ import annotations

import json
import threading

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Request
from horae.core.jobs.job import Job, Lease, Outcome
from horae.core.jobs.lines import Lines, LogLine
from horae.ports.world import World
from tests.cli.conftest import Command
from tests.cli.test_remote import far, near, same, served  # noqa: F401
from tests.support.serving import Served


def held(world: World, handler: str = "send") -> Job:
    jobs.enqueue(world, Request(handler, {}))
    return claims.pull(world, worker_id="w", limit=1)[0]


def end(world: World, job: Job, ending: str = "succeeded", *texts: str) -> None:
    lines = Lines(tuple(LogLine(job.created_at, "INFO", text) for text in texts), 2)
    outcome = Outcome(ending, error=None if ending == "succeeded" else "E: x", final=True, lines=lines)  # type: ignore[arg-type]
    endings.settle(world, [(job, outcome)])


def test_logs_are_printed_by_attempt(near: Command, far: Command, served: Served) -> None:  # noqa: F811
    job = held(served.world)
    end(served.world, job, "failed", "one\n  and more", "two")

    (found,) = same(near, far, "job", "logs", job.id)["items"]
    assert (found["attempt"], found["dropped"], [line["text"] for line in found["lines"]]) == (
        1, 2, ["one\n  and more", "two"],
    )  # fmt: skip
    printed = far("job", "logs", job.id).out
    assert "… 2 earlier lines not kept" in printed
    assert "INFO      one\n      and more\n" in printed
    assert same(near, far, "job", "logs", job.id, "--attempt", "2")["items"] == []
    assert near("job", "logs", "job_999").code == 3


def test_a_job_without_lines_says_why_there_are_none(near: Command, served: Served) -> None:  # noqa: F811
    job = held(served.world)
    assert "its lines come when this attempt has ended" in near("job", "logs", job.id).err
    endings.ack(served.world, job.id, job.token)
    assert "nothing was logged through ctx.logger" in near("job", "logs", job.id).err


def test_watch_ends_with_the_job_and_says_how(near: Command, far: Command, served: Served) -> None:  # noqa: F811
    done, died, called_off = (held(served.world) for _ in range(3))
    end(served.world, done)
    end(served.world, died, "failed")
    end(served.world, called_off, "cancelled")

    watched = {job.id: far("job", "watch", job.id) for job in (done, died, called_off)}
    assert [each.code for each in watched.values()] == [0, 1, 1]
    assert "dead, after" in watched[died.id].out
    assert near("job", "watch", "job_999").code == 3


def test_watch_and_logs_go_on_until_the_job_has_ended(near: Command, far: Command, served: Served) -> None:  # noqa: F811
    job = held(served.world)
    claims.progress(served.world, Lease(job.number, job.token), {"page": 1})
    assert near("job", "watch", job.id, "--timeout", "0s").code == 75
    ending = threading.Thread(target=end, args=(served.world, job, "succeeded", "the end"))
    ending.start()

    seen = far("job", "watch", job.id, "--json")
    ending.join()
    assert (seen.code, json.loads(seen.out.splitlines()[-1])["state"]) == (0, "succeeded")
    followed = far("job", "logs", "--follow", job.id, "--json")
    assert json.loads(followed.out)["lines"][0]["text"] == "the end"


def test_top_shows_queues_workers_and_running_jobs_once(near: Command, far: Command, served: Served) -> None:  # noqa: F811
    job = held(served.world, "images.resize")
    claims.progress(served.world, Lease(job.number, job.token), {"page": 1})

    look = far("top", "--once", "--json").json
    assert [each["id"] for each in look["running"]] == [job.id]
    assert look["queues"][0]["jobs"]["running"] == 1
    assert set(look) == {"at", "overview", "queues", "workers", "running", "rates"}
    page = near("top").out  # without a terminal it looks once
    assert "images.resize" in page
    assert "1 running, 0 due, 0 workers" in page
