"""Queues, workers, errors and the audit, read and changed without JavaScript (S3-54)."""

import re

from horae import Horae
from horae.api.audit import AuditEntry
from horae.console.pages.audit import differences
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.console.conftest import Browser, LogIn
from tests.console.ground import make_day


def test_a_queue_is_paused_with_a_reason_and_resumed_by_undo(operator: Browser, app: Horae, world: World) -> None:
    app.jobs.enqueue("greet", {}, queue="mail")
    answer = operator.post("/queues/mail/pause", reason="the disk is full", follow=True)
    queue = app.queues.get("mail")
    assert (queue.paused_at is not None, queue.pause_reason) == (True, "the disk is full")
    assert "Paused. Running jobs go on." in answer.text
    assert 'action="/console/queues/mail/resume"' in answer.text
    operator.post("/queues/mail/resume")
    assert app.queues.get("mail").paused_at is None


def test_a_limit_of_a_queue_is_a_whole_number_or_nothing(operator: Browser, app: Horae) -> None:
    app.jobs.enqueue("greet", {}, queue="mail")
    assert operator.post("/queues/mail/limit", max_running="3").status_code == 303
    assert app.queues.get("mail").max_running == 3
    refused = operator.post("/queues/mail/limit", max_running="three")
    assert refused.status_code == 422
    assert "is not a whole number" in refused.text
    assert app.queues.get("mail").max_running == 3
    operator.post("/queues/mail/limit", max_running="")
    assert app.queues.get("mail").max_running is None


def test_the_order_of_a_queue_is_chosen_from_two(operator: Browser, app: Horae) -> None:
    assert operator.post("/queues/mail/order", order="run_at").status_code == 303
    assert app.queues.get("mail").order == "run_at"
    assert operator.post("/queues/mail/order", order="at random").status_code == 422


def test_owners_take_turns_in_a_queue_from_its_page(operator: Browser, app: Horae) -> None:
    answer = operator.post("/queues/mail/fair", fair="owner", follow=True)
    assert app.queues.get("mail").fair == "owner"
    assert "Owners take turns, by their weights." in answer.text
    operator.post("/queues/mail/fair", fair="")
    assert app.queues.get("mail").fair is None


def test_queues_without_a_worker_are_said_in_a_sentence(operator: Browser, app: Horae) -> None:
    assert "No queue yet." in operator.open("/queues")
    app.jobs.enqueue("greet", {}, queue="mail")
    assert "One queue has jobs and no worker." in operator.open("/queues")


def test_a_worker_is_drained_and_resumed(operator: Browser, world: World, clock: VirtualClock, app: Horae) -> None:
    make_day(world, clock, hours=1)
    name = app.workers.list()[0].id
    answer = operator.post(f"/workers/{name}/drain", follow=True)
    assert "It takes no more jobs." in answer.text
    assert app.workers.get(name).drain == "stay"
    operator.post(f"/workers/{name}/resume")
    assert app.workers.get(name).drain is None


def test_an_error_is_found_muted_and_heard_of_again(
    operator: Browser, world: World, clock: VirtualClock, app: Horae
) -> None:
    make_day(world, clock, hours=2)
    page = operator.open("/errors")
    found = re.search(r'href="/console/errors/([0-9a-f]+)"', page)
    assert found is not None
    name = found[1]
    assert operator.post(f"/errors/{name}/mute", reason="known, ticket 7").status_code == 303
    assert app.error_groups.get(name).muted
    operator.open(f"/errors/{name}")  # says what was done, once
    assert name not in operator.open("/errors")
    assert name in operator.open("/errors?muted=yes")
    operator.post(f"/errors/{name}/unmute")
    assert not app.error_groups.get(name).muted


def test_muting_needs_a_reason(operator: Browser, world: World, clock: VirtualClock, app: Horae) -> None:
    make_day(world, clock, hours=2)
    name = next(iter(app.error_groups.list())).fingerprint
    assert operator.post(f"/errors/{name}/mute").status_code == 422
    assert not app.error_groups.get(name).muted


def test_the_audit_says_who_did_what_and_can_be_narrowed(operator: Browser, app: Horae) -> None:
    ada = app.acting_as("ada")
    ada.queues.pause("mail", reason="the disk is full")
    ada.queues.pause("orders", reason="the till is open")
    assert {"the disk is full", "the till is open"} <= texts_of(operator.open("/audit"))
    narrowed = operator.open("/audit?object_id=mail")
    assert "the disk is full" in narrowed
    assert "the till is open" not in narrowed


def texts_of(page: str) -> set[str]:
    return set(re.findall(r">([^<]+)<", page))


def test_the_chain_is_verified_on_request(operator: Browser, app: Horae) -> None:
    app.queues.pause("mail")
    assert "The chain holds" in operator.post("/audit/verify", follow=True).text


def test_only_fields_that_differ_are_shown(clock: VirtualClock) -> None:
    before, after = {"state": "queued", "token": 1}, {"state": "dead", "token": 1, "attempt": 3}
    entry = AuditEntry(
        id=1, at=clock.now(), actor="a", verb="v", object_type="job", object_id="1", before=before, after=after
    )
    assert [(each.name, each.before, each.after) for each in differences(entry)] == [
        ("attempt", "–", "3"),
        ("state", "queued", "dead"),
    ]


def test_a_tenant_sees_its_own_errors_and_no_workers(log_in: LogIn) -> None:
    alice = log_in("alice", "tasks")
    assert alice.get("/errors").status_code == 200
    assert alice.get("/workers").status_code == 403
    assert alice.get("/queues").status_code == 403
