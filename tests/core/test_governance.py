"""Governed objects: machines, verdicts, timers, forecasts, gates and budgets (S0-1, S0-3, S0-4, S0-34 to S0-36)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.governance import decay
from horae.core.governance.budgets import period_start, refill_at
from horae.core.governance.forecast import Assume, forecast
from horae.core.governance.gates import Boundary, may_act_on, rule, weigh
from horae.core.governance.machines import (
    ACTIONS,
    KINDS,
    MACHINES,
    VERDICTS,
    contest_event,
    event_of,
    is_uncertain,
    standing_of,
    way_to_archive,
)
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import BUILT_IN, DAY, Policy
from horae.core.governance.timers import RULES, next_action
from horae.core.governance.transitions import Around, conclude, move
from horae.core.governance.verdicts import Finding, finding_from, judge
from horae.errors import InvalidInput, NotAllowed
from tests.support.cases import cases

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
STATES = [(kind, state) for kind in KINDS for state in MACHINES[kind].states]
LIVE = [(kind, state) for kind, state in STATES if not MACHINES[kind].is_final(state)]


def an(kind: str = "memory", state: str | None = None, **fields: Any) -> GovernedObject:
    """Return an object; one that is uncertain is at the beginning of its episode."""
    made: dict[str, Any] = {"created_at": NOW, "state_since": NOW, "state": state or MACHINES[kind].start} | fields
    if is_uncertain(made["state"]):
        made = {
            "uncertain_until": NOW + BUILT_IN.uncertain_for,
            "unknown_type": "out_of_scope",
            "mode": "conservative",
        } | made
    return GovernedObject(1, "system", kind, "it", **made)  # type: ignore[arg-type]


# -- machines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_can_be_reached_from_the_first(kind: str) -> None:
    machine = MACHINES[kind]
    reached, open_ones = {machine.start}, [machine.start]
    while open_ones:
        state = open_ones.pop()
        for (before, _), after in machine.arrows.items():
            if before == state and after not in reached:
                reached.add(after)
                open_ones.append(after)

    assert reached == set(machine.states)


@pytest.mark.parametrize(("kind", "state"), LIVE)
def test_whatever_is_not_final_can_be_retracted_and_has_rules_for_its_time(kind: str, state: str) -> None:
    assert MACHINES[kind].after(state, "retracted").startswith("retracted")
    assert RULES[kind][state]


def test_what_was_poisoned_or_invalidated_never_becomes_active() -> None:
    ways = {kind: [to for (state, _), to in MACHINES[kind].arrows.items() if state == bad] for kind, bad in
            (("memory", "rejected_poisoned"), ("experience", "invalidated"))}  # fmt: skip

    assert ways == {"memory": ["archived", "retracted"], "experience": ["archived", "retracted"]}


def test_nothing_archived_comes_straight_back_to_active() -> None:
    back = {kind: MACHINES[kind].after(state, "reinstated") for kind, state in LIVE if state.startswith("archived")}

    assert back == {"memory": "stale_uncertain", "experience": "needs_review", "cognition": "stale/uncertain"}


@pytest.mark.parametrize(("kind", "action", "state", "verdict"), [
    (kind, action, state, verdict) for kind, state in LIVE for action, verdict in product(ACTIONS, (*VERDICTS, None))
])  # fmt: skip
def test_every_cell_leads_along_an_arrow_or_leaves_the_object_as_it_is(
    kind: str, action: str, state: str, verdict: str | None
) -> None:
    finding = None if verdict is None else Finding(verdict, survived_counterexample=True)  # type: ignore[arg-type]

    done = conclude(an(kind, state), action, finding, BUILT_IN, NOW)  # type: ignore[arg-type]

    expected = state
    for event in done.events:
        expected = MACHINES[kind].after(expected, event)
    assert done.object.state == expected
    assert done.object.version == 1 + max(1, len(done.events))
    assert [each.event for each in done.moves] == list(done.events)
    assert (done.object.next_action, done.object.next_action_at) == (
        (None, None) if done.planned is None else (done.planned.action, done.planned.at)
    )


# state: what becomes of it when confirmed, when nothing is found, when refuted
LOOKED_AT = {
    "memory": {
        "candidate": ("verified", "candidate", "quarantine"),
        "verified": ("verified", "stale_uncertain", "quarantine"),
        "active": ("active", "stale_uncertain", "quarantine"),
        "stale": ("active", "stale_uncertain", "quarantine"),
        "stale_uncertain": ("active", "stale_uncertain", "quarantine"),
    },
    "experience": {
        "candidate": ("active", "candidate", "needs_review"),
        "active": ("active", "needs_review", "needs_review"),
        "needs_review": ("active", "needs_review", "needs_review"),
    },
    "cognition": {
        "candidate/uncertain": ("active/supported", "candidate/uncertain", "refuted/refuted"),
        "active/supported": ("active/supported", "needs_revalidate/uncertain", "refuted/refuted"),
        "active/uncertain": ("active/supported", "active/uncertain", "refuted/refuted"),
        "needs_revalidate/uncertain": ("active/supported", "needs_revalidate/uncertain", "refuted/refuted"),
    },
}


@pytest.mark.parametrize(
    ("kind", "state", "ends"), [(kind, state, ends) for kind in KINDS for state, ends in LOOKED_AT[kind].items()]
)
def test_a_verdict_means_what_the_table_says(kind: str, state: str, ends: tuple[str, str, str]) -> None:
    found = []
    for verdict in ("confirmed", "inconclusive", "refuted"):
        event = event_of(kind, "verify", state, verdict)
        found.append(state if event is None else MACHINES[kind].after(state, event))

    assert tuple(found) == ends


def test_a_candidate_of_cognition_is_adopted_only_after_a_counterexample_was_survived() -> None:
    bare = conclude(an("cognition"), "verify", Finding("confirmed"), BUILT_IN, NOW)
    tried = conclude(an("cognition"), "verify", Finding("confirmed", survived_counterexample=True), BUILT_IN, NOW)

    assert (bare.events, tried.events) == ((), ("adopted",))


@pytest.mark.parametrize(("confidence", "state"), [(0.59, "active/uncertain"), (0.6, "active/supported")])
def test_stale_cognition_comes_back_by_its_confidence(confidence: float, state: str) -> None:
    finding = finding_from({"verdict": "confirmed", "confidence": confidence})

    assert conclude(an("cognition", "stale/uncertain"), "reinstate-check", finding, BUILT_IN, NOW).object.state == state


def test_a_contest_moves_where_there_is_an_arrow_and_else_sets_only_the_flag() -> None:
    assert contest_event("memory", "active") == "suspected"
    assert contest_event("experience", "needs_review") is None
    with pytest.raises(NotAllowed):
        move(an("memory", "archived"), "suspected", BUILT_IN, NOW)


@pytest.mark.parametrize(("kind", "state"), LIVE)
def test_the_way_to_the_archive_follows_arrows(kind: str, state: str) -> None:
    place = state
    for event in way_to_archive(kind, state):
        place = MACHINES[kind].after(place, event)

    assert place == state or place.startswith("archived")


# -- clocks and timers -------------------------------------------------------------------------------------------------


def test_the_curve_of_truth_is_at_its_target_after_one_stability() -> None:
    assert decay.retrievability(14 * DAY, 14 * DAY) == pytest.approx(0.9)
    assert decay.until_retrievability(0.9, 14 * DAY) == 14 * DAY
    assert decay.until_retrievability(0.8, DAY) / DAY == pytest.approx(3.3, abs=0.05)


@given(st.integers(1, 365), st.floats(0.6, 0.99))
def test_every_curve_has_crossed_its_threshold_at_the_computed_time_and_not_much_before(
    days: int, share: float
) -> None:
    span = days * DAY
    for curve, inverse in ((decay.retrievability, decay.until_retrievability), (decay.weight, decay.until_weight)):
        at = inverse(share, span)
        assert curve(at, span) <= share + 1e-9
        assert curve(at * 0.99, span) > share


def test_a_crossing_that_never_happens_still_has_a_date() -> None:
    assert NOW + decay.until_retrievability(0.01, 3650 * DAY) > NOW + 30_000 * DAY


def test_a_confirmation_doubles_stability_up_to_a_year() -> None:
    it = an("memory", "active", verified_at=NOW)
    spans = []
    for _ in range(7):
        it = conclude(it, "revalidate", Finding("confirmed"), BUILT_IN, NOW).object
        spans.append(it.stability // DAY)

    assert spans == [28, 56, 112, 224, 365, 365, 365]


def test_a_doubt_starts_stability_again() -> None:
    it = an("memory", "stale_uncertain", stability=200 * DAY)

    assert conclude(it, "verify", Finding("confirmed"), BUILT_IN, NOW).object.stability == 14 * DAY


@pytest.mark.parametrize(
    ("category", "action", "days"),
    [("event", "decay", 60), ("fact", "revalidate", 365), ("procedural", "revalidate", 365)],
)
def test_the_earliest_clock_decides(category: Any, action: str, days: int) -> None:
    policy = Policy(stability=365 * DAY, half_lives={"event": 30 * DAY, "fact": 240 * DAY, "procedural": None})
    it = an("memory", "active", verified_at=NOW, category=category, stability=365 * DAY)
    planned = next_action(it, policy, NOW)

    assert planned is not None
    assert (planned.action, planned.at) == (action, NOW + days * DAY)


def test_a_candidate_is_verified_at_once_and_then_less_and_less_often_until_it_counts_as_unknowable() -> None:
    steps = list(forecast(an(), BUILT_IN, NOW, NOW + 1000 * DAY))

    assert [(step.action, (step.at - NOW) // DAY) for step in steps] == [
        ("verify", 0), ("verify", 1), ("verify", 4),
        ("reinstate-check", 34), ("reinstate-check", 124), ("reinstate-check", 394),
    ]  # fmt: skip


def test_an_unknowable_verdict_stops_verification_at_once() -> None:
    it = conclude(an("memory", "active"), "verify", Finding("unknowable"), BUILT_IN, NOW).object
    actions = [step.action for step in forecast(it, BUILT_IN, NOW, NOW + 3650 * DAY)]

    assert (it.state, it.unknown_type) == ("stale_uncertain", "ontic_unknowable")
    assert actions == ["reinstate-check"] * 3


def test_uncertainty_is_verified_as_often_as_its_budget_says_and_then_ages() -> None:
    it = an("cognition", "needs_revalidate/uncertain", inconclusives=-10)  # so that it does not count as unknowable
    steps = list(forecast(it, BUILT_IN, NOW, NOW + 8 * DAY))

    assert [step.action for step in steps] == ["verify", "verify", "revalidate"]
    assert (steps[-1].at, steps[-1].events, steps[-1].state) == (NOW + 7 * DAY, ("aged",), "stale/uncertain")


@pytest.mark.parametrize(("risk", "mode"), [("medium", "conservative"), ("high", "escalate")])
def test_what_ages_is_handled_with_care(risk: Any, mode: str) -> None:
    it = an("cognition", "active/uncertain", risk=risk, verify_used=2, mode="explore")

    assert conclude(it, "revalidate", Finding("inconclusive"), BUILT_IN, NOW + 7 * DAY).object.mode == mode


def test_a_confirmation_ends_an_episode_and_restores_its_budget() -> None:
    it = an("memory", "stale_uncertain", verify_used=1)
    done = conclude(it, "verify", Finding("confirmed"), BUILT_IN, NOW).object

    assert (done.verify_used, done.unknown_type, done.mode, done.uncertain_until) == (0, None, None, None)


def test_what_the_caller_asked_for_wins_but_not_beyond_the_end_of_uncertainty() -> None:
    soon = an("cognition", "active/uncertain", verify_used=2, asked_action="verify", asked_at=NOW + 2 * DAY)
    late = replace(soon, asked_at=NOW + 20 * DAY)
    first, second = next_action(soon, BUILT_IN, NOW), next_action(late, BUILT_IN, NOW)

    assert first is not None
    assert second is not None
    assert (first.action, first.at) == ("verify", NOW + 2 * DAY)
    assert (second.action, second.at) == ("revalidate", NOW + 7 * DAY)


def test_an_active_memory_whose_time_is_over_decays_into_the_archive() -> None:
    it = an("memory", "active", verified_at=NOW, expires_at=NOW + DAY)
    step = next(forecast(it, BUILT_IN, NOW, NOW + 2 * DAY))

    assert (step.at, step.events, step.state) == (NOW + DAY, ("decayed", "archived"), "archived")


def test_a_protected_object_is_never_archived() -> None:
    it = an("memory", "stale", protected=True, stale_since=NOW)

    assert "archive" not in {step.action for step in forecast(it, BUILT_IN, NOW, NOW + 400 * DAY)}
    assert conclude(it, "archive", None, BUILT_IN, NOW).events == ()


@settings(max_examples=cases(200), deadline=None)
@given(
    st.sampled_from(LIVE), st.sampled_from(["confirmed", "inconclusive", "refuted", "none"]), st.booleans(),
    st.sampled_from(["event", "fact", "procedural"]), st.integers(0, 5), st.sampled_from(["low", "medium", "high"]),
)  # fmt: skip
def test_time_goes_on_whatever_is_found_and_verification_is_bounded(
    where: tuple[str, str], assume: Assume, contested: bool, category: Any, evidence: int, risk: Any
) -> None:
    it = an(*where, contested=contested, category=category, risk=risk)
    steps = list(forecast(it, BUILT_IN, NOW, NOW + 3650 * DAY, assume=assume, around=Around(evidence=evidence)))

    assert len(steps) < 700
    assert all(first.at <= second.at for first, second in pairwise(steps))
    assert all(sum(other.at == step.at for other in steps) <= 3 for step in steps)  # nothing turns on the spot
    checks = [step for step in steps if step.rule == "reinstate"]
    assert len(checks) <= len(BUILT_IN.reinstate_after)


def test_reading_moves_no_clock() -> None:
    it = an("memory", "active", verified_at=NOW)

    assert next_action(it, BUILT_IN, NOW + DAY) == next_action(it, BUILT_IN, NOW)


# -- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [
    None, "confirmed", {}, {"verdict": "yes"}, {"verdict": "confirmed", "evidence": "a"},
    {"verdict": "confirmed", "evidence": [""]}, {"verdict": "confirmed", "confidence": 1.1},
    {"verdict": "confirmed", "confidence": True}, {"verdict": "confirmed", "cost": {"calls": 1.5}},
    {"verdict": "confirmed", "cost": {"beer": 1}}, {"verdict": "confirmed", "other": 1},
    {"verdict": "confirmed", "counterexample": "lost"}, {"verdict": "confirmed", "note": 7},
])  # fmt: skip
def test_what_is_no_verdict_is_refused(answer: Any) -> None:
    with pytest.raises(InvalidInput):
        finding_from(answer)


def test_a_verdict_is_read_with_its_evidence_each_once() -> None:
    answer = {"verdict": "refuted", "evidence": ["a", "b", "a"], "confidence": 0.25, "cost": {"calls": 1, "tokens": 0}}

    assert finding_from(answer) == Finding("refuted", ("a", "b"), 250_000, cost={"calls": 1})


def test_the_built_in_verifier_confirms_a_candidate_by_one_piece_of_evidence() -> None:
    assert judge(an(), "verify", BUILT_IN, evidence=1).verdict == "confirmed"
    assert judge(an(), "verify", BUILT_IN).verdict == "inconclusive"


@pytest.mark.parametrize("signal", [
    {"reinstate_signal": True}, {"reinforcements": 1}, {"new_evidence": 1}, {"reinforced_at": NOW, "stale_since": NOW},
])  # fmt: skip
def test_the_built_in_verifier_needs_a_signal_since_the_last_verdict(signal: dict[str, Any]) -> None:
    it = an("memory", "stale", **signal)

    assert judge(it, "revalidate", BUILT_IN, evidence=5).verdict == "confirmed"
    assert judge(an("memory", "stale"), "revalidate", BUILT_IN, evidence=5).verdict == "inconclusive"
    after = conclude(it, "reinstate-check", judge(it, "reinstate-check", BUILT_IN), BUILT_IN, NOW).object
    assert not after.has_signal


# -- gates and decisions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "risk", "outcome"), [
    ("active", "low", "executed"), ("active", "medium", "executed"), ("active", "high", "limited"),
    ("stale", "low", "limited"), ("stale", "medium", "limited"), ("stale", "high", "escalated"),
    ("rejected_poisoned", "low", "abstained"), ("rejected_poisoned", "high", "abstained"),
])  # fmt: skip
def test_a_decision_comes_to_what_its_grounds_and_risk_allow(state: str, risk: Any, outcome: str) -> None:
    cited = [an("memory", state)]
    ruling = rule(cited, risk, weigh(cited, risk, (), ()))

    assert (ruling.outcome, bool(ruling.reason)) == (outcome, True)


@given(st.lists(st.sampled_from(LIVE), max_size=4), st.booleans(), st.booleans())
def test_high_risk_is_never_executed(grounds: list[tuple[str, str]], contested: bool, rollback: bool) -> None:
    cited = [an(kind, state, contested=contested) for kind, state in grounds]

    assert rule(cited, "high", weigh(cited, "high", (), (), rollback_open=rollback)).outcome != "executed"


def test_a_boundary_is_found_in_any_writing_and_blocks() -> None:
    gates = weigh([], "low", [Boundary("share  PASSWORDS")], ["Please \uff33hare passwords now"])

    assert rule([], "low", gates).outcome == "blocked"
    assert gates.hits == ("share  PASSWORDS",)


def test_a_limit_of_the_persona_makes_it_at_most_limited() -> None:
    gates = weigh([], "low", [Boundary("refund", "limit")], ["a refund"])

    assert (gates.strictest, rule([], "low", gates).outcome) == ("limit", "limited")


@pytest.mark.parametrize("stop", [{"contested": True}, {}])
def test_a_contest_or_an_open_rollback_blocks(stop: dict[str, Any]) -> None:
    cited = [an("memory", "active", **stop)]

    assert rule(cited, "low", weigh(cited, "low", (), (), rollback_open=not stop)).outcome == "blocked"


def test_an_act_may_cite_high_risk_only_when_it_is_active_and_verified_lately() -> None:
    fresh = an("memory", "active", risk="high", verified_at=NOW)

    assert may_act_on(fresh, BUILT_IN, NOW + 14 * DAY) is None
    assert may_act_on(fresh, BUILT_IN, NOW + 15 * DAY) == "not_verified_lately"
    assert may_act_on(replace(fresh, state="verified"), BUILT_IN, NOW) == "not_active"
    assert may_act_on(replace(fresh, contested=True), BUILT_IN, NOW) == "contested"
    assert may_act_on(replace(fresh, risk="medium", state="stale"), BUILT_IN, NOW) is None


def test_the_worth_of_a_state_is_one_of_three() -> None:
    worth = {state: standing_of(state) for _, state in STATES}

    assert {state for state, each in worth.items() if each == "supported"} == {"verified", "active", "active/supported"}
    assert {state for state, each in worth.items() if each == "refuted"} == {
        "rejected_poisoned", "invalidated", "refuted/refuted", "archived/refuted",
    }  # fmt: skip


# -- budgets -----------------------------------------------------------------------------------------------------------


def test_a_new_day_is_a_new_budget_and_those_who_wait_come_back_spread() -> None:
    later = [refill_at("day", NOW, f"job_{number}") for number in range(50)]

    assert period_start("day", NOW) == datetime(2026, 3, 1, tzinfo=UTC)
    assert period_start("month", NOW + 40 * DAY) == datetime(2026, 4, 1, tzinfo=UTC)
    assert all(
        at is not None and timedelta(0) <= at - datetime(2026, 3, 2, tzinfo=UTC) < timedelta(minutes=10) for at in later
    )
    assert len(set(later)) == 50
    assert refill_at("month", NOW, "a") is not None
    assert refill_at("ever", NOW, "a") is None
