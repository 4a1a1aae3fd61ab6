"""Commands behind a service: the same answers and exit codes as near the database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from horae.actions.jobs import claims, endings
from horae.actions.jobs.machinery import serve_due
from tests.cli.conftest import Command, Ended
from tests.support.serving import Served, serving

DATABASE = "sqlite:///shared.db"
PULLED = " by itself; it waits until a worker pulls"
LATER = "2040-01-01T00:00:00Z"


@pytest.fixture
def served(environment: Path) -> Iterator[Served]:
    with serving(DATABASE) as running:
        yield running


@pytest.fixture
def near(horae: Command) -> Command:
    return lambda *arguments: horae(*arguments, "--db", DATABASE)


@pytest.fixture
def far(horae: Command, served: Served, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("HORAE_TOKEN", served.token("system", "admin"))
    return lambda *arguments: horae(*arguments, "--url", served.url)


def same(near: Command, far: Command, *arguments: str) -> Any:
    """What a command that only looks says, both ways."""
    here, there = near(*arguments), far(*arguments)
    where = r" Looked in .*"  # said only near: the service knows its database
    assert (there.code, timeless(there.out)) == (here.code, re.sub(where, "", timeless(here.out)))
    here, there = near(*arguments, "--json"), far(*arguments, "--json")
    assert (there.code, json.loads(there.out.replace(PULLED, ""))) == (here.code, here.json)
    return here.json


def timeless(text: str) -> str:
    """Without what depends on the moment of looking, and on who looks: some workers only a service can expect."""
    text = text.replace(PULLED, "")
    return re.sub(r" +", " ", re.sub(r"\bnow\b|\b\d+(\.\d+)? (ms|s|min|h|d)\b( ago)?", "…", text))


def answer(ended: Ended) -> Any:
    assert ended.code == 0, ended.err
    return ended.json


# -- jobs --------------------------------------------------------------------------------------------------------


def test_jobs_are_enqueued_and_looked_at(near: Command, far: Command) -> None:
    asked = ("job", "enqueue", "mail", "--arg", "to=bob", "--queue", "post", "--priority", "high", "--tag", "a",
             "--key", "mail:1", "--run-at", LATER, "--max-attempts", "5", "--json")  # fmt: skip
    made, again = answer(far(*asked)), answer(near(*asked))
    assert made["deduplicated"] is False
    assert again["deduplicated"] is True
    assert again["id"] == made["id"]
    for number in range(3):
        near("job", "enqueue", "sum", "--arg", f"n={number}", "--delay", "1h")
    job_id = made["id"]
    same(near, far, "job", "list")
    same(near, far, "job", "list", "--handler", "mail", "--state", "queued", "--tag", "a", "--owner", "system")
    same(near, far, "job", "list", "--key", "mail:1")
    same(near, far, "job", "list", "--state", "dead")
    page = same(near, far, "job", "list", "--limit", "2")
    same(near, far, "job", "list", "--limit", "2", "--cursor", page["next_cursor"])
    same(near, far, "job", "show", job_id)


def test_what_is_enqueued_far_is_as_near(near: Command, far: Command) -> None:
    ours = ("job", "enqueue", "mail", "--unique", "u", "--json")
    made = (answer(near(*ours)), answer(far("job", "enqueue", "mail", "--unique", "v", "--json")))
    one, two = (answer(near("job", "show", each["id"], "--json"))["job"] for each in made)
    differ = {name for name in one if one[name] != two[name]}
    assert differ <= {"id", "run_at", "planned_at", "created_at", "unique", "key"}


def test_an_application_gives_queue_and_checks_also_far(project: Path, far: Command) -> None:
    made = answer(far("job", "enqueue", "add", "--app", "tasks:app", "--arg", "left=1", "--arg", "right=2", "--json"))
    assert answer(far("job", "show", made["id"], "--json"))["job"]["queue"] == "sums"
    assert far("job", "enqueue", "add", "--app", "tasks:app", "--arg", "left=1").code == 2
    assert not (project / "app.db").exists()


def test_jobs_are_cancelled_revived_and_tried_again(near: Command, far: Command, served: Served) -> None:

    first, second = (answer(near("job", "enqueue", "mail", "--json"))["id"] for _ in range(2))
    for job in claims.pull(served.world, worker_id="w"):
        endings.fail(served.world, job.id, job.token, "no", final=True)
    assert answer(far("job", "revive", first, "--reason", "mended", "--json"))["state"] == "queued"
    counted = far("job", "revive", "--where", "state:dead", "--dry-run", "--json")
    assert (counted.code, counted.json["dry_run"], counted.json["matched"]) == (0, True, 1)
    assert far("job", "retry", second).code == 0
    assert far("job", "cancel", first).out == f"{first}: cancelled\n"
    assert far("job", "cancel", first).code == near("job", "cancel", first).code == 4
    begun = answer(far("job", "cancel", "--where", f"id:{second}", "--json"))
    serve_due(served.world, "w")
    assert answer(far("act", "wait", begun["id"], "--json"))["changed"] == 1
    same(near, far, "act", "show", begun["id"])
    same(near, far, "job", "show", second)


# -- queues and schedules ------------------------------------------------------------------------------------------


def test_queues_are_steered(near: Command, far: Command) -> None:
    assert far("queue", "pause", "mail", "--reason", "moving").out.startswith("mail is paused")
    assert answer(far("queue", "limit", "mail", "2", "--json"))["max_running"] == 2
    same(near, far, "queue", "list")
    assert answer(far("queue", "limit", "mail", "none", "--json"))["max_running"] is None
    assert answer(far("queue", "resume", "mail", "--json"))["paused_at"] is None
    assert far("queue", "limit", "mail", "0").code == near("queue", "limit", "mail", "0").code == 2


def test_limits_are_set_listed_and_reset(near: Command, far: Command) -> None:
    """S3-53."""
    assert far("limit", "set", "group:etl", "3").out == "group:etl runs at most 3 jobs at once\n"
    assert answer(far("limit", "set", "global", "none", "--json"))["max_running"] is None
    same(near, far, "limit", "list")
    assert far("limit", "reset", "group:etl").out == near("limit", "reset", "group:etl").out
    assert far("limit", "set", "nonsense", "3").code == near("limit", "set", "nonsense", "3").code == 2
    assert far("limit", "set", "global", "0").code == near("limit", "set", "global", "0").code == 2


def test_how_long_runs_are_kept_is_said_near_and_far(near: Command, far: Command) -> None:
    stored = answer(far("retention", "set", "365d", "--queue", "law", "--reason", "tax", "--json"))
    assert [(each["queue"], each["outcome"], each["keep"]) for each in stored["rules"]] == [("law", None, 365 * 86400)]
    near("retention", "set", "7d", "--outcome", "succeeded")
    same(near, far, "retention", "show")
    assert "law" in near("retention", "show").out
    assert far("retention", "set", "1m").code == near("retention", "set", "1m").code == 2
    assert (
        far("retention", "set", "7d", "--outcome", "odd").code
        == near("retention", "set", "7d", "--outcome", "odd").code
    )
    far("retention", "set", "default", "--queue", "law")
    assert [each["outcome"] for each in answer(near("retention", "show", "--json"))["rules"]] == ["succeeded"]


def test_schedules_are_made_and_steered(near: Command, far: Command) -> None:
    options = ("--handler", "report", "--cron", "0 3 * * *", "--tz", "Asia/Shanghai", "--jitter", "2m",
               "--group", "night", "--payload", '{"a": 1}', "--starts-at", "2031-01-01", "--json")  # fmt: skip
    here = answer(near("schedule", "add", "near", *options))
    there = answer(far("schedule", "add", "far", *options))
    moving = {"key", "next_due_at", "created_at", "updated_at", "tzdata"}
    assert {name for name in here if here[name] != there[name]} <= moving
    for change in (
        ("--every", "90s"), ("--once", "2040-01-01T09:00"), ("--ends-at", "none", "--group", "none"),
        ("--enabled",), ("--cron", "0 4 * * *", "--jitter", "0", "--max-fires", "3"),
    ):  # fmt: skip
        assert far("schedule", "change", "far", *change, "--reason", "why not").code == 0
    assert far("schedule", "change", "far", "--cron", "0 5 * * *", "--version", "1").code == 5
    same(near, far, "schedule", "list", "--limit", "1")
    page = answer(far("schedule", "list", "--limit", "1", "--json"))["next_cursor"]
    same(near, far, "schedule", "list", "--cursor", page)
    assert far("schedule", "pause", "--group", "night", "--json").json["changed"] == ["near"]
    assert far("schedule", "resume", "near").code == 0
    triggered = answer(far("schedule", "trigger", "far", "--arg", "b=2", "--json"))
    assert triggered["fire"]["kind"] == "manual"
    assert far("schedule", "trigger", "far").code == near("schedule", "trigger", "far").code == 5
    for looked in ("show", "history", "preview"):
        same(near, far, "schedule", looked, "far")
    same(near, far, "schedule", "backfill", "far", "--from", "2025-01-01", "--to", "2025-01-03")
    asked = far("schedule", "delete", "far")
    assert (asked.code, asked.out.partition(" far")[0]) == (7, "would delete")
    assert far("schedule", "delete", "far", "--yes").code == 0
    assert far("schedule", "show", "far").code == near("schedule", "show", "far").code == 3


def test_a_mistake_in_cron_is_pointed_at(near: Command, far: Command) -> None:
    wrong = ("schedule", "add", "bad", "--handler", "x", "--cron", "61 * * * *", "--json")
    here, there = near(*wrong), far(*wrong)
    assert (there.code, there.json) == (here.code, here.json)
    assert there.err == here.err


def test_tokens_are_made_listed_and_revoked(near: Command, far: Command, horae: Command, served: Served) -> None:
    made = answer(far("token", "create", "--owner", "alice", "--scopes", "tasks, read", "--expires", "12h", "--json"))
    mine = ("job", "list", "--url", served.url, "--token", made["token"])
    assert horae(*mine).code == 0
    assert made["token"] not in far("token", "list").out
    same(near, far, "token", "list")
    same(near, far, "token", "list", "--owner", "alice", "--limit", "1")
    further = answer(near("token", "list", "--limit", "1", "--json"))["next_cursor"]
    same(near, far, "token", "list", "--cursor", further)
    same(near, far, "audit", "verify")
    assert answer(far("token", "revoke", made["id"], "--reason", "lost", "--json"))["state"] == "revoked"
    assert horae(*mine).code == 4
    assert far("token", "create", "--owner", "alice", "--scopes", "everything").code == 2
    assert far("token", "revoke", "000000000000").code == near("token", "revoke", "000000000000").code == 3


# -- what can go wrong ---------------------------------------------------------------------------------------------


def test_nobody_there_is_unavailable(horae: Command) -> None:
    ended = horae("queue", "list", "--url", "http://127.0.0.1:1")
    assert ended.code == 69
    assert "cannot be reached" in ended.err


def test_without_a_token_it_says_where_to_put_one(horae: Command, served: Served) -> None:
    horae("job", "list", "--url", served.url, "--json").assert_refused(4, "service_wants_token")
    ended = horae("job", "list", "--url", served.url, "--token", "wr0ng", "--json")
    ended.assert_refused(4, "service_refuses_token")
    assert "wr0ng" not in ended.out + ended.err


def test_a_token_that_may_not_is_refused(horae: Command, served: Served) -> None:
    token = served.token("alice", "tasks")
    ended = horae("queue", "pause", "mail", "--url", served.url, "--token", token, "--json")
    ended.assert_refused(4, "service_forbids")
    assert "admin" in ended.json["error"]["facts"]["problem"]
    assert token not in ended.out + ended.err


def test_a_tenant_sees_only_its_own(horae: Command, near: Command, served: Served) -> None:
    near("job", "enqueue", "mail")
    ended = horae("job", "list", "--url", served.url, "--token", served.token("alice", "tasks"), "--json")
    assert ended.json == {"items": [], "next_cursor": None}


def test_the_environment_names_the_service_and_db_wins_over_it(
    horae: Command, near: Command, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    near("job", "enqueue", "mail")
    monkeypatch.setenv("HORAE_URL", served.url)
    monkeypatch.setenv("HORAE_TOKEN", served.token("system", "admin"))
    assert len(horae("job", "list", "--json").json["items"]) == 1
    assert horae("job", "list", "--db", "sqlite:///elsewhere.db").code == 3
    assert horae("db", "check", "--db", DATABASE).code == 0


NEAR_ONLY = [("db", "migrate"), ("db", "check"), ("schedule", "next", "1h")]


@pytest.mark.parametrize("words", NEAR_ONLY)
def test_what_needs_the_database_says_so(horae: Command, words: tuple[str, ...]) -> None:
    horae(*words, "--url", "http://127.0.0.1:1", "--json").assert_refused(2, "needs_database_here")


def test_a_database_and_a_service_are_one_too_many(horae: Command) -> None:
    ended = horae("job", "list", "--url", "http://127.0.0.1:1", "--db", DATABASE, "--json")
    ended.assert_refused(2, "database_or_service")


def test_an_unencrypted_way_is_warned_of(horae: Command) -> None:
    ended = horae("job", "list", "--url", "http://horae.invalid", "--token", "abc")
    assert ended.code == 69
    assert ended.err.startswith("warning: The token goes to horae.invalid unencrypted")
    assert "abc" not in ended.err


def test_whose_job_it_is_follows_from_the_token(far: Command) -> None:
    far("job", "enqueue", "mail", "--owner", "alice", "--json").assert_refused(2, "owner_from_token")
