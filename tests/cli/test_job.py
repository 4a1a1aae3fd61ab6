"""Jobs from a shell: enqueue, look, act."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from horae.actions.jobs import claims, endings, jobs, queues
from horae.actions.jobs.machinery import serve_due
from horae.actions.jobs.requests import Request
from horae.app import Horae
from tests.cli.conftest import Command

JOB_FIELDS = {
    "action", "attempt", "budget", "cancel_reason", "cancel_requested", "checkpoint", "collected", "concurrency_key",
    "cost", "created_at",
    "finished_at", "fire_at", "group", "handler", "held", "id", "key", "last_error", "leased_until", "max_attempts",
    "object_id", "object_type", "owner", "payload", "planned_at", "priority", "progress", "progressed_at", "queue",
    "rerun_of", "result", "retry", "run_at", "started_at", "state", "tags", "timeout", "token", "trace_id", "unique",
    "worker_id",
}  # fmt: skip


@pytest.fixture
def app(environment: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Horae]:
    """The same database from inside."""
    monkeypatch.setenv("HORAE_DATABASE_URL", f"sqlite:///{environment}/horae.db")
    with Horae() as app:
        yield app


def enqueued(horae: Command, *more: str) -> str:
    answer = horae("job", "enqueue", "send", "--json", *more)
    assert answer.code == 0, answer.err
    job_id: str = answer.json["id"]
    return job_id


def test_a_job_for_the_database_that_nobody_named_says_where_it_went(horae: Command) -> None:
    unnamed = horae("job", "enqueue", "send")
    named = horae("job", "enqueue", "send", "--db", "sqlite:///named.db")

    assert "in sqlite:///.horae/horae.db; --db or HORAE_DATABASE_URL names another" in unnamed.err
    assert (unnamed.out.startswith("job_1 enqueued"), named.err) == (True, "")
    assert horae("job", "enqueue", "send", "--quiet").err == ""


def kill(app: Horae, *job_ids: str, queue: str = "default") -> None:
    """Let the jobs fail for good."""
    for job in claims.pull(app.world, worker_id="w", queues=[queue], limit=100):
        if job.id in job_ids:
            endings.fail(app.world, job.id, job.token, "broken", final=True)


# -- enqueue -----------------------------------------------------------------------------------------------------


def test_enqueue_stores_what_the_options_say(app: Horae, horae: Command) -> None:
    job_id = enqueued(
        horae, "--arg", "to=ada", "--arg", "copies=2", "--queue", "mail", "--priority", "high",
        "--tag", "a", "--tag", "b", "--key", "k", "--unique", "u", "--owner", "acme", "--max-attempts", "7",
        "--run-at", "2099-01-01T00:00:00+02:00",
    )  # fmt: skip

    job = app.get(job_id)
    assert job.payload == {"to": "ada", "copies": 2}
    assert (job.queue, job.priority, job.tags, job.key, job.unique) == ("mail", "high", ("a", "b"), "k", "u")
    assert (job.owner, job.max_attempts) == ("acme", 7)
    assert job.run_at.isoformat() == "2098-12-31T22:00:00+00:00"


def test_a_delay_moves_the_due_time(app: Horae, horae: Command) -> None:
    job = app.get(enqueued(horae, "--delay", "2h"))

    assert (job.run_at - job.created_at).total_seconds() == 7200


def test_arguments_come_as_one_object_or_from_stdin(
    app: Horae, horae: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    first = enqueued(horae, "--args", '{"a": [1, null]}', "--arg", "b=text")
    monkeypatch.setattr("sys.stdin", io.StringIO('{"c": 3}'))
    second = enqueued(horae, "-")

    assert app.get(first).payload == {"a": [1, None], "b": "text"}
    assert app.get(second).payload == {"c": 3}


@pytest.mark.parametrize(
    "wrong",
    [
        ["--args", "[1]"],
        ["--args", "{"],
        ["--arg", "novalue"],
        ["--args", "{}", "-"],
        ["stray"],
        ["--delay", "soon"],
        ["--run-at", "tomorrow"],
        ["--run-at", "2030-01-01T00:00:00"],
        ["--delay", "1s", "--run-at", "2030-01-01T00:00:00Z"],
        ["--priority", "urgent"],
        ["--max-attempts", "0"],
        ["--queue", "two words"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_a_usage_error_and_stores_nothing(wrong: list[str], app: Horae, horae: Command) -> None:
    ended = horae("job", "enqueue", "send", *wrong)

    assert ended.code == 2, ended.err
    assert jobs.find(app.world) == []


def test_the_same_key_gives_the_same_job_and_another_request_a_conflict(app: Horae, horae: Command) -> None:
    first = enqueued(horae, "--key", "k", "--arg", "n=1")
    again = horae("job", "enqueue", "send", "--key", "k", "--arg", "n=1", "--json")
    other = horae("job", "enqueue", "send", "--key", "k", "--arg", "n=2")

    assert again.json["id"] == first
    assert again.json["deduplicated"] is True
    assert other.code == 5


def test_with_its_app_a_job_takes_queue_and_retry_from_the_declaration(project: Path, horae: Command) -> None:
    ended = horae("job", "enqueue", "add", "--app", "tasks:app", "--arg", "left=1", "--arg", "right=2", "--json")

    shown = horae("job", "show", ended.json["id"], "--db", "sqlite:///app.db", "--json")
    assert shown.json["job"]["queue"] == "sums"
    assert (project / "app.db").exists()
    assert "horae job list --db sqlite:///app.db" in ended.err
    horae("db", "migrate")
    assert horae("job", "list").out == "No jobs yet. Looked in sqlite:///.horae/horae.db.\n"


def test_with_its_app_wrong_arguments_are_refused(project: Path, horae: Command) -> None:
    ended = horae("job", "enqueue", "add", "--app", "tasks:app", "--arg", "lefd=1")

    assert ended.code == 2
    assert "left" in ended.err


# -- look --------------------------------------------------------------------------------------------------------


def test_a_job_as_json_has_exactly_the_documented_fields(app: Horae, horae: Command) -> None:
    enqueued(horae)

    assert set(horae("job", "list", "--json").json["items"][0]) == JOB_FIELDS


def test_pages_follow_one_another_without_gap_or_repeat(app: Horae, horae: Command) -> None:
    all_ids = [enqueued(horae) for _ in range(5)]

    seen: list[str] = []
    before: list[str] = []
    while True:
        page = horae("job", "list", "--limit", "2", "--json", *before).json
        seen += [job["id"] for job in page["items"]]
        if page["next_cursor"] is None:
            break
        before = ["--cursor", page["next_cursor"]]

    assert seen == all_ids[::-1]


def test_filters_narrow_the_list(app: Horae, horae: Command) -> None:
    enqueued(horae, "--queue", "a", "--tag", "red")
    wanted = enqueued(horae, "--queue", "b", "--tag", "red")
    enqueued(horae, "--queue", "b")

    found = horae("job", "list", "--queue", "b", "--tag", "red", "--state", "queued", "--json").json["items"]

    assert [job["id"] for job in found] == [wanted]


def test_an_unknown_state_is_a_usage_error_that_lists_the_known_ones(app: Horae, horae: Command) -> None:
    enqueued(horae)
    ended = horae("job", "list", "--state", "lost")

    assert ended.code == 2
    assert "queued" in ended.err


def test_a_list_for_people_lines_up_and_ends_with_the_way_on(app: Horae, horae: Command) -> None:
    enqueued(horae)
    enqueued(horae)

    ended = horae("job", "list", "--limit", "1")

    assert ended.out.splitlines()[0].split() == ["ID", "STATE", "HANDLER", "QUEUE", "ATTEMPTS", "WHEN", "UTC", "ERROR"]
    assert "\x1b" not in ended.out
    assert "--cursor " in ended.err
    assert horae("job", "list", "--limit", "1", "--quiet").err == ""


def test_show_tells_runs_and_the_last_error(app: Horae, horae: Command) -> None:
    job_id = enqueued(horae)
    kill(app, job_id)

    answer = horae("job", "show", job_id, "--json").json
    page = horae("job", "show", job_id).out

    assert [run["outcome"] for run in answer["runs"]] == ["failed"]
    assert answer["why"][0]["code"] == "dead"
    assert "broken" in page


def test_show_says_every_reason_why_a_job_waits(app: Horae, horae: Command) -> None:
    job_id = enqueued(horae, "--queue", "mail", "--delay", "1h")
    queues.pause_queue(app.world, "mail", actor="ada", reason="moving house")

    reasons = horae("job", "show", job_id, "--json").json["why"]

    assert [reason["code"] for reason in reasons] == ["queue_paused", "scheduled", "no_worker"]
    assert "moving house" in reasons[0]["text"]


def test_show_names_the_holder_of_a_concurrency_key(app: Horae, horae: Command) -> None:
    first, second = (jobs.enqueue(app.world, Request("send", concurrency_key="customer:7")).id for _ in range(2))
    claims.pull(app.world, worker_id="w")

    reason = horae("job", "show", second, "--json").json["why"][0]

    assert reason["code"] == "concurrency"
    assert first in reason["text"]


def test_wait_exits_by_how_the_job_ended(app: Horae, horae: Command) -> None:
    succeeds, dies, cancelled = (enqueued(horae, "--max-attempts", "1") for _ in range(3))
    horae("job", "cancel", cancelled, "--reason", "not needed")
    kill(app, dies)
    (job,) = app.jobs.list(state="running")
    app.jobs.ack(job.id, job.token, result=7)

    ended = {job_id: horae("job", "wait", job_id) for job_id in (succeeds, dies, cancelled)}

    assert {job_id: answer.code for job_id, answer in ended.items()} == {succeeds: 0, dies: 1, cancelled: 1}
    assert "broken" in ended[dies].out
    assert "not needed" in ended[cancelled].out
    assert horae("job", "wait", succeeds, "--json").json["result"] == 7


def test_a_wait_that_times_out_asks_to_be_repeated(app: Horae, horae: Command) -> None:
    answer = horae("job", "wait", enqueued(horae), "--timeout", "50ms", "--json")

    assert (answer.code, answer.json["error"]["reason"]) == (75, "job_not_ended_in_time")
    assert horae("job", "wait", "job_999", "--timeout", "0s").code == 3
    assert horae("job", "wait", "job_1", "--timeout", "soon").code == 2


def test_a_job_that_is_not_there_is_not_found(app: Horae, horae: Command) -> None:
    enqueued(horae)

    assert horae("job", "show", "job_999").code == 3
    assert horae("job", "show", "twelve").code == 3


# -- act ---------------------------------------------------------------------------------------------------------


def test_cancel_ends_a_waiting_job_and_a_second_time_is_refused(app: Horae, horae: Command) -> None:
    job_id = enqueued(horae)

    assert horae("job", "cancel", job_id).out == f"{job_id}: cancelled\n"
    assert horae("job", "cancel", job_id).code == 4


def test_who_acted_and_why_is_kept(app: Horae, horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_ACTOR", "ada")
    job_id = enqueued(horae)
    horae("job", "cancel", job_id, "--reason", "sent by hand")

    entries = app.world.store.read(lambda tx: tx.audit.find(object_id=job_id, limit=10, before=None))

    assert [(entry.actor, entry.verb, entry.reason) for _, entry in entries] == [("ada", "cancel", "sent by hand")]


def test_several_jobs_are_a_bulk_act(app: Horae, horae: Command) -> None:
    first, second, third = (enqueued(horae) for _ in range(3))
    horae("job", "cancel", first)

    ended = horae("job", "cancel", first, second, "--json")
    serve_due(app.world, "w")

    assert (ended.code, ended.json["verb"], ended.json["matched"]) == (0, "cancel", 1)
    assert ended.json["filter"] == f"id:{first},{second}"
    assert (app.get(second).state, app.get(third).state) == ("cancelled", "queued")


def test_a_bulk_act_is_counted_begun_waited_for_and_shown(app: Horae, horae: Command) -> None:
    dead = [enqueued(horae, "--queue", "mail") for _ in range(3)]
    kill(app, *dead, queue="mail")
    other = enqueued(horae)

    dry = horae("job", "revive", "--where", "queue:mail error:broken", "--dry-run")
    states_before = {app.get(job_id).state for job_id in dead}
    begun = horae("job", "revive", "--where", "queue:mail error:broken", "--reason", "mended")
    waited = horae("act", "wait", "act_1", "--timeout", "0s")
    serve_due(app.world, "w")
    done = horae("act", "wait", "act_1")

    assert (dry.out.splitlines()[0], dry.code) == ("would revive 3 jobs; nothing was changed", 0)
    assert states_before == {"dead"}
    assert begun.out.splitlines()[0] == "act_1 revive is running: 0 of 3 jobs, 0 skipped"
    assert waited.code == 75
    assert (done.out, done.code) == ("act_1 revive is done: 3 of 3 jobs, 0 skipped\n", 0)
    assert {app.get(job_id).state for job_id in dead} == {"queued"}
    assert app.get(other).state == "queued"
    assert "mended" in horae("act", "show", "act_1").out
    assert horae("act", "list", "--json").json["items"][0]["changed"] == 3


def test_acts_are_paused_resumed_cancelled_and_undone(app: Horae, horae: Command) -> None:
    job_id = enqueued(horae, "--delay", "1h")
    due = app.get(job_id).run_at
    assert horae("job", "reschedule", "--where", "handler:send", "--in", "2d").code == 0

    assert horae("act", "pause", "act_1", "--reason", "wait").out.startswith("act_1 reschedule is paused")
    assert horae("act", "wait", "act_1").code == 1
    assert horae("act", "resume", "act_1").code == 0
    serve_due(app.world, "w")
    assert app.get(job_id).run_at > due
    assert horae("act", "undo", "act_1").code == 0
    serve_due(app.world, "w")
    assert app.get(job_id).run_at == due
    assert horae("act", "cancel", "act_1").code == 4
    assert horae("act", "show", "act_99").code == 3


def test_one_job_is_moved_at_once(app: Horae, horae: Command) -> None:
    job_id = enqueued(horae)

    assert horae("job", "reschedule", job_id, "--to", "2040-01-07T06:00:00Z").out == f"{job_id}: queued\n"
    assert app.get(job_id).run_at.year == 2040
    assert horae("job", "reschedule", job_id).code == 2
    assert horae("job", "reschedule", job_id, "--to", "2040-01-07T06:00:00Z", "--in", "2h").code == 2


def test_a_mistake_in_a_filter_is_pointed_at(app: Horae, horae: Command) -> None:
    enqueued(horae)

    for verb in (("list",), ("cancel",), ("revive", "--dry-run")):
        ended = horae("job", *verb, "--where", "queue:mail stat:dead")

        assert ended.code == 2
        assert ended.err.splitlines()[-2:] == ["  queue:mail stat:dead", "             ^"]


@pytest.mark.parametrize("wrong", [[], ["job_1", "--where", "queue:mail"], ["--where", ""]], ids=" ".join)
def test_a_bulk_act_is_named_jobs_or_a_filter_never_both_or_neither(
    wrong: list[str], app: Horae, horae: Command
) -> None:
    enqueued(horae)

    assert horae("job", "revive", *wrong).code == 2


def test_retry_revives_a_dead_job(app: Horae, horae: Command) -> None:
    job_id = enqueued(horae)
    kill(app, job_id)

    horae("job", "retry", job_id)

    assert (app.get(job_id).state, app.get(job_id).attempt) == ("queued", 0)


def test_retry_makes_a_waiting_job_due_now_and_keeps_its_count(app: Horae, horae: Command) -> None:
    job_id = enqueued(horae)
    (job,) = claims.pull(app.world, worker_id="w")
    endings.fail(app.world, job.id, job.token, "not yet")

    horae("job", "retry", job_id)

    assert app.get(job_id).attempt == 1
    assert app.get(job_id).run_at <= app.world.clock.now()


def test_retry_of_a_finished_job_is_refused_with_advice(app: Horae, horae: Command) -> None:
    job_id = enqueued(horae)
    (job,) = claims.pull(app.world, worker_id="w")
    endings.ack(app.world, job.id, job.token)

    ended = horae("job", "retry", job_id)

    assert ended.code == 4
    assert f"horae job rerun {job_id}" in ended.err


def test_a_dead_job_is_run_once_more_with_one_argument_mended(app: Horae, horae: Command) -> None:
    payload = {"customer": "ACME", "amount": "twelve"}
    job_id = horae("job", "enqueue", "invoice", "--args", json.dumps(payload), "--json").json["id"]
    kill(app, job_id)

    ended = horae("job", "rerun", job_id, "--arg", "amount=12", "--reason", "it was a word", "--json")

    made = app.get(ended.json["id"])
    assert (made.payload, made.rerun_of) == ({"customer": "ACME", "amount": 12}, job_id)
    whole = horae("job", "rerun", job_id, "--args", "{}", "--json").json["id"]
    assert app.get(whole).payload == {}
    same = horae("job", "rerun", job_id).out
    assert same.endswith(f"runs like {job_id}\n")
    assert app.get(same.split()[0]).payload == payload


def test_a_job_that_has_not_ended_is_not_run_once_more(app: Horae, horae: Command) -> None:
    job_id = enqueued(horae)

    assert horae("job", "rerun", job_id).code == 4
    assert horae("job", "rerun", "job_999").code == 3
    assert horae("job", "rerun", job_id, "--args", "[1]").code == 2
    assert len(list(app.jobs.list())) == 1


# -- on every database -------------------------------------------------------------------------------------------


def test_a_job_goes_from_the_shell_to_a_worker_and_back(database_url: str, horae: Command) -> None:
    before = horae("db", "check", "--db", database_url)
    assert horae("db", "migrate", "--db", database_url).code == 0
    job_id = horae("job", "enqueue", "send", "--db", database_url, "--arg", "n=1", "--json").json["id"]

    with Horae(database_url) as app:
        (job,) = claims.pull(app.world, worker_id="w")
        endings.ack(app.world, job.id, job.token, result={"sent": True})
    answer = json.loads(horae("job", "show", job_id, "--db", database_url, "--json").out)

    assert before.code in (3, 6)
    assert answer["job"]["state"] == "succeeded"
    assert answer["job"]["result"] == {"sent": True}


@pytest.mark.parametrize(
    "options", [("--queue", ""), ("--max-attempts", "0"), ("--max-attempts", str(10**12))], ids=" ".join
)
@pytest.mark.parametrize("app", [(), ("--app", "tasks:app")], ids=["plain", "through its application"])
def test_what_cannot_work_is_refused_in_words_and_nothing_is_stored(
    horae: Command, project: Path, options: tuple[str, ...], app: tuple[str, ...]
) -> None:
    refused = horae("job", "enqueue", "add", "--args", '{"left": 1, "right": 2}', *app, *options)

    assert (refused.code != 0, "Traceback" in refused.err, len(refused.err) > 30) == (True, False, True)
