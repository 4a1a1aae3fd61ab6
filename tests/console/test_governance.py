"""What agents remember, read and judged by a person in a browser without JavaScript (S3-54, governance.md)."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest

from horae.actions.jobs import queues
from horae.core.governance.machines import MACHINES
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.console.conftest import Browser, LogIn
from tests.console.ground import HOSTILE
from tests.console.memories import acting, remember, suspect
from tests.console.test_pages import assert_harmless


@pytest.fixture
def remembered(world: World, clock: VirtualClock) -> dict[str, str]:
    """What agents have learned in some days; ask for it before a browser, whose session would end meanwhile."""
    return remember(world, clock)


@pytest.fixture
def carol(world: World) -> Any:
    return acting(world, "user/carol")


def propose(browser: Browser, **fields: Any) -> str:
    """Propose by the form; return the id."""
    given = {"content": "Ann likes tea", "kind": "memory", "subject": "Ann", "evidence": "chat:1", **fields}
    answer = browser.post("/governance/new", **given)
    assert answer.status_code == 303, answer.text
    found = re.search(r"/objects/([^?]+)", answer.headers["location"])
    assert found is not None
    return found[1]


def verbs_offered(page: str) -> set[str]:
    return set(re.findall(r'formaction="[^"]*/objects/[^/]+/(\w+)"', page))


def test_an_empty_governance_teaches_with_this_servers_address(operator: Browser) -> None:
    page = operator.open("/governance")
    assert "Nothing is remembered yet." in page
    assert "--url http://horae.test:8765" in page
    assert 'href="/console/governance/new"' in page


def test_something_is_proposed_by_form_and_found_by_its_filters(operator: Browser, carol: Any) -> None:
    name = propose(operator, risk="high", evidence="chat:1\nmail:2")
    found = carol.objects.get(name)
    assert (found.content, found.subject, found.risk, found.evidence) == ("Ann likes tea", "Ann", "high", 2)
    assert found.queue == "governance"  # which workers serve; nobody pulls what a person has typed
    assert name in operator.open("/governance?kind=memory&status=candidate&risk=high&subject=ann")
    assert name not in operator.open("/governance?kind=experience")
    assert operator.get("/governance?kind=dream").status_code == 422


def test_what_is_missing_in_a_proposal_is_said_and_the_rest_is_kept(operator: Browser) -> None:
    answer = operator.post("/governance/new", content=" ", subject="Ann and Bo")
    assert answer.status_code == 422
    assert "Say what to remember." in answer.text
    assert "Ann and Bo" in answer.text


def test_the_list_goes_on_page_by_page(operator: Browser, carol: Any) -> None:
    from horae.core.governance.proposals import Proposal

    carol.objects.propose_many([Proposal("memory", f"number {number}") for number in range(60)])
    seen: set[str] = set()
    path: str | None = "/governance"
    while path is not None:
        page = operator.open(path)
        seen |= set(re.findall(r"mem_[0-9a-f]{12}", page))
        more = re.search(r'rel="next" href="/console([^"]+)"', page)
        path = None if more is None else more[1].replace("&amp;", "&")
    assert len(seen) == 60


def test_an_object_says_its_state_why_and_what_becomes_of_it(remembered: dict[str, str], operator: Browser) -> None:
    made = remembered
    page = operator.open(f"/governance/objects/{made['tea']}")
    assert "Verified and in use. It may be relied on." in page
    assert "Ann drinks green tea" in page
    assert "nothing new arrives" in page
    assert "it was last verified long ago" in page
    assert 'class="late ahead"' in page  # the forecast, hollow
    assert 'class="done"' in page  # what was, solid
    assert f"/governance/objects/{made['lesson']}" in page  # carried by it
    assert "greet Ann with tea" in page  # decided on it
    assert re.search(r'href="/console/jobs/job_\d+"', page)
    confirmed = operator.open(f"/governance/objects/{made['tea']}?assume=confirmed")
    assert 'class="late ahead"' not in confirmed


def test_an_object_says_for_what_its_next_action_waits(operator: Browser, world: World, carol: Any) -> None:
    name = propose(operator)
    page = operator.open(f"/governance/objects/{name}")
    assert "What its next action waits for:" in page
    assert "No worker serves the queue governance:" in page
    assert "horae worker MODULE:APP --queues governance=10" in page

    queues.pause_queue(world, "governance", reason="the index is rebuilt", actor="user/carol")
    page = operator.open(f"/governance/objects/{name}")
    assert "paused" in page[page.index("What its next action waits for:") :]
    chinese = operator.open(f"/governance/objects/{name}?lang=zh")
    assert "下一步在等什么：" in chinese
    assert "暂停" in chinese[chinese.index("下一步在等什么：") :]

    carol.objects.retract(name)
    operator.open("/governance?lang=en")
    assert "What its next action waits for:" not in operator.open(f"/governance/objects/{name}")


def test_a_secret_in_content_is_masked(remembered: dict[str, str], operator: Browser) -> None:
    made = remembered
    page = operator.open(f"/governance/objects/{made['bank']}")
    assert "sk-live-123456" not in page
    assert "What looks like a secret is masked." in page


def test_only_verbs_that_the_state_allows_are_offered(operator: Browser, carol: Any) -> None:
    name = propose(operator)
    page = operator.open(f"/governance/objects/{name}")
    assert verbs_offered(page) == {"verify", "contest", "archive", "retract"}
    carol.objects.conclude(name, "confirmed")
    assert "use" in verbs_offered(operator.open(f"/governance/objects/{name}"))
    carol.objects.retract(name, reason="it was a joke")
    assert verbs_offered(operator.open(f"/governance/objects/{name}")) == set()


def test_a_reader_is_offered_no_verb(log_in: LogIn, operator: Browser) -> None:
    name = propose(operator)
    page = log_in("system", "read").open(f"/governance/objects/{name}")
    assert verbs_offered(page) == set()
    assert "What you can do" not in page


def test_every_verb_that_is_offered_can_be_done(operator: Browser, log_in: LogIn, carol: Any) -> None:
    """No button of an object's page leads to a refusal, in whatever state it is pressed."""
    judge, fresh, done = log_in(), count(), set()

    def an_object(kind: str, verdict: str) -> str:
        name = propose(operator, kind=kind, content=f"number {next(fresh)}", subject="")
        if verdict:
            carol.objects.conclude(name, verdict)
        return name

    for kind in MACHINES:
        for verdict in ("", "confirmed", "refuted"):
            offered = verbs_offered(judge.open(f"/governance/objects/{an_object(kind, verdict)}?kind={kind}"))
            for verb in offered:
                name = an_object(kind, verdict)
                version = carol.objects.get(name).version
                answer = judge.post(f"/governance/objects/{name}/{verb}", kind=kind, version=version, reason="so")
                assert answer.status_code == 303, (kind, verdict, verb, answer.text)
                done.add(verb)
    assert done == {"use", "verify", "contest", "clear", "reject", "archive", "retract"}


def test_a_verb_keeps_the_reason_and_refuses_an_old_version(operator: Browser, carol: Any) -> None:
    name = propose(operator)
    answer = operator.post(
        f"/governance/objects/{name}/contest", kind="memory", version=1, reason="I doubt it", follow=True
    )
    assert "It is contested. Now: in quarantine." in answer.text
    assert "I doubt it" in {each.reason for each in carol.objects.history(name)}
    late = operator.post(f"/governance/objects/{name}/archive", kind="memory", version=1)
    assert late.status_code == 412


def test_evidence_is_added_and_known_evidence_is_not_new(operator: Browser, carol: Any) -> None:
    name = propose(operator)
    fields = {"reference": "mail:9", "evidence_kind": "contradicts", "note": "from Bo"}
    assert "The evidence is kept." in operator.post(f"/governance/objects/{name}/evidence", follow=True, **fields).text
    again = operator.post(f"/governance/objects/{name}/evidence", follow=True, **fields)
    assert "It had that evidence already." in again.text
    assert carol.objects.get(name).evidence == 2


def test_erasing_needs_the_id_typed_and_leaves_nothing(operator: Browser, carol: Any) -> None:
    name = propose(operator, content="a canary sings")
    refused = operator.post(f"/governance/objects/{name}/erase", sure="yes")
    assert refused.status_code == 422
    assert carol.objects.get(name).content == "a canary sings"
    page = operator.post(f"/governance/objects/{name}/erase", sure=name, reason="asked for", follow=True).text
    assert "canary" not in page
    assert "What it said was erased" in page
    assert carol.objects.get(name).content is None


def test_objects_of_a_tenant_are_reached_with_its_owner(operator: Browser, log_in: LogIn, carol: Any) -> None:
    alice = log_in("alice", "tasks")
    name = propose(alice)
    assert operator.get(f"/governance/objects/{name}").status_code == 404
    page = operator.open(f"/governance/objects/{name}?owner=alice")
    assert 'name="owner" value="alice"' in page
    assert operator.post(f"/governance/objects/{name}/contest", owner="alice").status_code == 303
    assert carol.objects.get(name, owner="alice").contested
    assert log_in("bob", "tasks").get(f"/governance/objects/{name}").status_code == 404


def test_a_question_is_answered_before_its_deadline(
    operator: Browser, world: World, clock: VirtualClock, carol: Any
) -> None:
    made = suspect(world, clock)
    assert "One question waits; its time is up in 48 min." in operator.open("/governance/reviews")
    page = operator.open(f"/governance/reviews/{made['review']}")
    assert "all orders are free today" in page
    answer = operator.post(
        f"/governance/reviews/{made['review']}/answer", answer="reject", note="asked Bo", follow=True
    )
    assert "Answered: rejected." in answer.text
    closed = carol.reviews.get(made["review"])
    assert (closed.answer, closed.note) == ("reject", "asked Bo")
    assert carol.objects.get(made["forged"]).status == "rejected_poisoned"
    assert operator.post(f"/governance/reviews/{made['review']}/answer", answer="approve").status_code == 409
    assert operator.post(f"/governance/reviews/{made['review']}/answer", answer="perhaps").status_code == 422


def test_who_may_not_answer_sees_no_answer(log_in: LogIn, world: World, clock: VirtualClock) -> None:
    made = suspect(world, clock)
    assert "Your answer" not in log_in("system", "read").open(f"/governance/reviews/{made['review']}")


def test_decisions_say_outcome_reason_and_what_they_rest_on(remembered: dict[str, str], operator: Browser) -> None:
    made = remembered
    blocked = operator.open("/governance/decisions?outcome=blocked")
    assert "delete data of last year" in blocked
    assert "greet Ann with tea" not in blocked
    page = operator.open(f"/governance/decisions/{made['decision']}")
    assert "A boundary of the persona is hit: delete data" in page
    assert "Boundaries hit" in page


def test_a_rolled_back_decision_says_so(operator: Browser, carol: Any) -> None:
    name = propose(operator)
    decided = carol.decisions.decide("bring tea", cites=[f"memory:{name}"])
    carol.objects.contest(name)
    operator.post(f"/governance/objects/{name}/clear")  # its proposer must not
    carol.objects.reject(name, reason="forged")
    assert "rolled back" in operator.open("/governance/decisions")
    assert "Rolled back" in operator.open(f"/governance/decisions/{decided.id}")


def test_a_budget_is_set_corrected_and_seen_to_be_used_up(operator: Browser, carol: Any) -> None:
    assert "what agents spend is not limited" in operator.open("/governance/budgets")
    set_ = operator.post(
        "/governance/budgets", name="llm", agent="", unit="calls", period="day", capacity="1,000", follow=True
    )
    assert "1,000 are left." in set_.text
    assert operator.post("/governance/budgets/adjust", name="llm", unit="calls", amount="1000").status_code == 422
    operator.post("/governance/budgets/adjust", name="llm", unit="calls", amount="1000", reason="from before")
    assert carol.budgets.get("llm", "calls").settled == 1000
    assert "One budget is used up." in operator.open("/governance/budgets")
    assert operator.post("/governance/budgets", name="llm", unit="calls", capacity="many").status_code == 422


def test_a_persona_is_set_whole_and_an_old_version_is_refused(operator: Browser, carol: Any) -> None:
    fields: dict[str, Any] = {
        "agent": "planner",
        "boundaries": "delete data\n~refund",
        "values": "care",
        "reason": "agreed",
    }
    assert operator.post("/governance/personas", **fields).status_code == 303
    found = carol.personas.get("planner")
    assert [(each.text, each.effect) for each in found.boundaries] == [("delete data", "block"), ("refund", "limit")]
    page = operator.open("/governance/personas/planner")
    assert "~refund" in page
    assert operator.post("/governance/personas", **fields, version="7").status_code == 412


def test_a_policy_is_set_as_json_and_a_mistake_is_said(operator: Browser, carol: Any) -> None:
    assert "The built-in policy holds." in operator.open("/governance/policies/memory")
    broken = operator.post("/governance/policies", kind="memory", settings="{verify_budget: 3}")
    assert broken.status_code == 422
    assert "This is not a JSON object." in broken.text
    assert "{verify_budget: 3}" in broken.text
    assert operator.post("/governance/policies", kind="memory", settings='{"verify_budget": 3}').status_code == 303
    assert carol.policies.get("memory").settings["verify_budget"] == 3
    assert "Checks while uncertain" in operator.open("/governance/rules")


def test_planning_anew_counts_first(operator: Browser, carol: Any) -> None:
    propose(operator)
    assert "nothing was changed" in operator.post("/governance/replan", follow=True).text
    assert "planned anew" in operator.post("/governance/replan", sure="yes", follow=True).text


def test_hostile_text_in_what_is_remembered_is_only_text(operator: Browser, carol: Any) -> None:
    text = HOSTILE.replace("\u202e", "")
    name = carol.objects.propose(
        "memory", HOSTILE, subject=text[:200], evidence=[{"reference": text[:200], "note": HOSTILE}], source=text,
        agent="planner", reason=HOSTILE,
    ).id  # fmt: skip
    decided = carol.decisions.decide(HOSTILE, cites=[f"memory:{name}"], agent="planner", reason=HOSTILE)
    carol.personas.set("planner", boundaries=[text[:100]], values=[text[:100]], reason=HOSTILE)
    asked = carol.reviews.ask(f"memory:{name}", HOSTILE)
    for path in (
        "/governance", f"/governance/objects/{name}", "/governance/reviews", f"/governance/reviews/{asked.id}",
        "/governance/decisions", f"/governance/decisions/{decided.id}", "/governance/rules",
        "/governance/personas/planner", "/audit",
    ):  # fmt: skip
        assert_harmless(operator.open(path), path)


def test_what_is_remembered_is_whole_in_chinese(
    remembered: dict[str, str], world: World, clock: VirtualClock, operator: Browser
) -> None:
    made = suspect(world, clock)
    page = operator.open(f"/governance/objects/{made['forged']}?lang=zh")
    assert "隔离中" in page
    assert "怀疑有误或系伪造" in page
    assert "没有新信息" in page


def test_the_report_has_charts_words_and_what_is_above_its_line(
    remembered: dict[str, str], operator: Browser, clock: VirtualClock, carol: Any
) -> None:
    page = operator.open("/governance/report")
    assert page.count('class="band"') == 2
    seen = carol.governance.report()
    assert f"<dd>{seen.jobs.succeeded}</dd>" in page
    for line in seen.lines:
        assert line.in_words("en").partition(" ")[2][:20] in page
    assert "horae governance report --last 7d" in page
    longer = operator.open("/governance/report?days=90")
    assert "By week" in longer
    assert "a week" in operator.open("/governance/report?days=9999")  # an unknown period is the usual one


def test_an_empty_report_says_that_nothing_happened(operator: Browser) -> None:
    assert "Nothing happened in this time." in operator.open("/governance/report")
