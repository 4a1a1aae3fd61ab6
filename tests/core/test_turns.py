"""Turns between owners: shares follow the weights, and whoever comes new is not kept waiting."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.jobs.turns import Turns
from tests.support.cases import cases


def claim(turns: Turns, waiting: dict[str, int], room: int, size: int = 1) -> Counter[str]:
    """Serve one claim from jobs that wait, as a store does."""
    taken: Counter[str] = Counter()
    while room and (given := turns.share(room, size)):
        found = {owner: min(count, waiting[owner]) for owner, count in given.items()}
        for owner, count in found.items():
            waiting[owner] -= count
        turns.charge(given, found, found)
        taken.update(found)
        room -= sum(found.values())
    return taken


@settings(max_examples=cases(100), deadline=None)
@given(
    weights=st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 9), min_size=1, max_size=12),
    rooms=st.lists(st.integers(1, 120), min_size=1, max_size=40),
    size=st.integers(1, 5),
)
def test_shares_follow_the_weights_up_to_two_turns(weights: dict[str, int], rooms: list[int], size: int) -> None:
    turns = Turns()
    turns.weights = weights
    turns.add(weights)
    waiting = dict.fromkeys(weights, 10**6)
    taken: Counter[str] = Counter()
    for room in rooms:
        taken.update(claim(turns, waiting, room, size))

    total = sum(rooms)
    assert taken.total() == total
    for owner, weight in weights.items():
        fair = total * weight / sum(weights.values())
        assert abs(taken[owner] - fair) <= 2 * size * weight


def test_an_owner_with_one_job_is_served_by_the_next_claim_whatever_another_has() -> None:
    turns, waiting = Turns(), {"flood": 100_000, "other": 0}
    turns.add(["flood"])
    for _ in range(50):
        claim(turns, waiting, 10)

    waiting["other"] = 1
    turns.add(["other"])

    assert claim(turns, waiting, 1) == {"other": 1}


def test_an_owner_that_was_idle_has_saved_up_nothing() -> None:
    turns, waiting = Turns(), {"busy": 10_000, "idle": 10_000}
    turns.add(["busy"])
    claim(turns, waiting, 1000)
    turns.add(["idle"])

    taken = claim(turns, waiting, 100)

    assert abs(taken["busy"] - taken["idle"]) <= 1


def test_an_owner_that_comes_one_job_at_a_time_is_no_newcomer_each_time() -> None:
    turns, waiting, taken = Turns(), {"steady": 1000, "drips": 0}, Counter[str]()
    turns.add(["steady"])
    for _ in range(100):
        waiting["drips"] = 1
        turns.add_first(["drips"], 1)
        taken.update(claim(turns, waiting, 1))

    assert abs(taken["steady"] - taken["drips"]) <= 2


def test_a_newcomer_goes_first_among_thousands() -> None:
    waiting = {f"o{number}": 100 for number in range(10_000)}
    turns = Turns()
    turns.add(waiting)
    claim(turns, waiting, 50)

    waiting["new"] = 1
    turns.add_first(["new"], 50)

    assert claim(turns, waiting, 1) == {"new": 1}


def test_a_stream_of_newcomers_leaves_half_of_each_claim_to_those_that_wait() -> None:
    waiting = {f"o{number}": 100 for number in range(100)}
    turns, taken = Turns(), Counter[str]()
    turns.add(waiting)
    for number in range(40):
        fresh = {f"n{number}-{place}": 1 for place in range(20)}
        waiting |= fresh
        turns.add_first(fresh, 10)
        taken.update(claim(turns, waiting, 10))

    old = sum(count for owner, count in taken.items() if owner.startswith("o"))
    assert old >= 100


def test_what_was_given_and_not_taken_is_returned() -> None:
    turns = Turns()
    turns.add(["a", "b"])
    given = turns.share(2)
    turns.charge(given, given, {"a": 1})  # the job of b was held back by a limit

    assert turns.share(1) == {"b": 1}


def test_jobs_at_the_head_of_a_queue_are_taken_out_of_turn_up_to_one_turn() -> None:
    turns = Turns()
    turns.add(["a", "b"])

    assert turns.admit(["a", "c", "a", "a", "a", "b"], 2) == [True, True, True, False, False, True]


def test_an_owner_pays_back_what_it_took_out_of_turn() -> None:
    turns, waiting = Turns(), {"a": 1000, "b": 1000}
    turns.add(waiting)
    turns.charge_more({"a": 50})

    assert claim(turns, waiting, 50) == {"b": 50}


def test_owners_that_left_are_forgotten_once_the_others_have_caught_up() -> None:
    turns, waiting = Turns(), {"stays": 10**6}
    for number in range(5000):
        owner = f"o{number}"
        waiting[owner] = 1
        turns.add(["stays", owner])
        claim(turns, waiting, 4)

    assert len(turns) == 1
    assert turns.remembered < 2500
