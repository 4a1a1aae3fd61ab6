"""Virtual shards, the map, and numbers that carry their shard."""

from collections import Counter

import pytest

from horae.core.attention.numbers import task_name, task_number
from horae.core.cluster.moves import AT_ONCE, FEW_ROWS, MOST_AT_ONCE, next_parcel
from horae.core.cluster.numbers import (
    DRAWS,
    FIRST_NUMBER,
    LAST_DATABASE,
    VSHARDS,
    birthplace,
    first_draw,
    job_id,
    number_from,
    number_of_id,
    read_number,
    vshard_in,
    vshard_of_id,
    write_id,
)
from horae.core.cluster.placement import vshard_of_job
from horae.core.cluster.shard_map import HOME, ShardMap, first_map
from horae.core.jobs.batch import batch_number
from horae.core.jobs.job import NewJob, job_number
from horae.errors import Conflict, InvalidInput, NotFound
from horae.testing.clock import NOON

SALT = bytes(range(16))


def a_map() -> ShardMap:
    return first_map("first", "sqlite:///a.db", SALT)


def a_job(**given: object) -> NewJob:
    return NewJob("mail", "{}", "default", 1, NOON, NOON, **given)  # type: ignore[arg-type]


def test_the_virtual_shard_of_an_owner_never_changes() -> None:
    shard_map = a_map()
    assert [shard_map.vshard_of(owner=owner) for owner in ("ann", "ben", "系统")] == [2809, 3999, 2995]


def test_the_same_text_as_owner_key_and_shard_key_is_three_strangers() -> None:
    shard_map = a_map()
    texts = [f"name-{index}" for index in range(50)]
    alike = [text for text in texts if shard_map.hash("owner", text) == shard_map.hash("key", text)]
    assert len(alike) < 5
    assert any(shard_map.hash("key", text) != shard_map.hash("shard_key", text) for text in texts)


def test_another_salt_places_the_same_owners_elsewhere() -> None:
    other = first_map("first", "sqlite:///a.db", bytes(16))
    owners = [f"owner-{index}" for index in range(100)]
    assert sum(a_map().vshard_of(owner=each) == other.vshard_of(owner=each) for each in owners) < 5


def test_owners_spread_evenly_over_few_databases() -> None:
    shard_map = a_map().add("second", "b").add("third", "c").add("fourth", "d")
    for number in (2, 3, 4):
        shard_map = shard_map.move(shard_map.share_for(number), number)
    found = Counter(shard_map.database_of(shard_map.vshard_of(owner=f"owner-{index}")) for index in range(8000))
    assert set(found) == {1, 2, 3, 4}
    assert max(found.values()) < 1.15 * min(found.values())


def test_what_the_house_keeps_without_a_key_lives_at_home() -> None:
    assert a_map().vshard_of() == HOME


@pytest.mark.parametrize("kind", ["key", "unique", "concurrency_key"])
def test_a_job_of_the_house_lives_by_the_one_key_it_has(kind: str) -> None:
    shard_map = a_map()
    assert vshard_of_job(shard_map, a_job(**{kind: "invoice-1"}), 0.5) == shard_map.vshard_of(key="invoice-1")


def test_a_job_of_the_house_without_a_key_is_drawn() -> None:
    assert vshard_of_job(a_map(), a_job(), 0.5) == VSHARDS // 2
    assert vshard_of_job(a_map(), a_job(), 0.999999) == VSHARDS - 1


def test_a_job_of_a_tenant_lives_with_its_owner_whatever_keys_it_has() -> None:
    job = a_job(owner="ann", key="a", unique="b", concurrency_key="c", shard_key="d")
    assert vshard_of_job(a_map(), job, 0.5) == a_map().vshard_of(owner="ann")


def test_two_kinds_of_key_need_a_shard_key() -> None:
    with pytest.raises(InvalidInput) as refused:
        vshard_of_job(a_map(), a_job(key="a", unique="b"), 0.5)
    assert refused.value.reason == "shard_key_needed"
    placed = vshard_of_job(a_map(), a_job(key="a", unique="b", shard_key="c"), 0.5)
    assert placed == a_map().vshard_of(shard_key="c")


def test_a_number_carries_its_shard_and_its_birthplace() -> None:
    number = number_from(first_draw(3) + 5, 17)
    assert (vshard_in(number), birthplace(number)) == (17, 3)
    assert number_from(first_draw(3) + DRAWS - 1, VSHARDS - 1) < number_from(first_draw(4), 0)
    assert number_from(first_draw(LAST_DATABASE) + DRAWS - 1, VSHARDS - 1) == 2**63 - 1


def test_an_id_names_its_shard_and_is_read_back() -> None:
    number = number_from(first_draw(1) + 1, 17)
    assert job_id(number) == f"job_17x{number}" == write_id("job_", number)
    assert job_number(job_id(number)) == number
    assert vshard_of_id(f"{job_id(number)}.3") == 17
    assert number_of_id(f"{job_id(number)}.3") == number


def test_an_id_from_before_the_cluster_stays_as_it_was() -> None:
    assert job_id(42) == "job_42"
    assert job_number("job_42") == 42
    assert vshard_of_id("job_42") is None
    assert birthplace(42) == 1
    assert vshard_in(FIRST_NUMBER - 1) is None


def test_ids_of_batches_and_tasks_name_their_shard_and_those_of_before_stay() -> None:
    number = number_from(first_draw(3) + 5, 17)
    assert (task_name(number), task_name(12)) == (f"t17x{number}", "t12")
    assert [task_number(each) for each in (f"t17x{number}", "t12")] == [number, 12]
    assert batch_number(f"batch_17x{number}") == number
    assert batch_number("batch_3") == 3
    for wrong in (f"t18x{number}", "t", "t0", "tx1", "12"):
        with pytest.raises(NotFound):
            task_number(wrong)
    for wrong in (f"batch_18x{number}", "batch_", "3"):
        with pytest.raises(NotFound):
            batch_number(wrong)


def test_an_id_whose_shard_contradicts_its_number_names_nothing() -> None:
    number = number_from(first_draw(1) + 1, 17)
    for text in (f"18x{number}", "17x42", f"017x{number}", f"x{number}", "17x", f"-1x{number}", str(2**63), "²"):
        assert read_number(text) is None
    with pytest.raises(NotFound):
        job_number(f"job_18x{number}")


def test_each_database_gets_a_number_that_no_other_ever_had() -> None:
    shard_map = a_map().add("second", "b").add("third", "c")
    assert [each.number for each in shard_map.members] == [1, 2, 3]
    assert (shard_map.version, shard_map.next_number) == (3, 4)
    assert shard_map.named("third").number == 3


def test_a_database_is_not_added_twice() -> None:
    shard_map = a_map().add("second", "b")
    with pytest.raises(Conflict):
        shard_map.add("second", "c")
    with pytest.raises(Conflict):
        shard_map.add("third", "b")
    with pytest.raises(InvalidInput):
        shard_map.add("Third one", "c")


def test_a_new_database_takes_its_fair_share_and_never_the_home() -> None:
    shard_map = a_map().add("second", "b")
    share = shard_map.share_for(2)
    assert len(share) == VSHARDS // 2
    assert HOME not in share
    moved = shard_map.move(share, 2)
    assert dict(moved.counts) == {1: VSHARDS // 2, 2: VSHARDS // 2}
    assert moved.share_for(2) == []
    assert moved.version == shard_map.version + 1


def test_a_shard_cannot_be_moved_to_an_unknown_database() -> None:
    with pytest.raises(NotFound):
        a_map().move([1], 9)


def test_a_parcel_has_many_shards_where_they_have_few_rows_and_few_beside_one_with_many() -> None:
    left = range(1, 4000)
    assert next_parcel(left, {}) == left[:MOST_AT_ONCE]
    assert next_parcel(left, {500: FEW_ROWS + 1}) == left[:499]  # the large one begins the next
    assert next_parcel(left[499:], {500: FEW_ROWS + 1}) == left[499:][:AT_ONCE]
    assert len(next_parcel(left, dict.fromkeys(left, 10))) == FEW_ROWS // 10
    assert next_parcel(left, dict.fromkeys(left, 1000)) == left[:AT_ONCE]
    assert next_parcel([7], {}) == [7]
