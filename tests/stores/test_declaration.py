"""One declaration per table: what follows from it, and what it refuses."""

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import MetaData, Table, create_engine, insert, select

from horae.core.jobs.job import Filter, Job, NewJob
from horae.ports.schedules import ScheduleFilter
from horae.stores.codecs import COUNT, FLAG, INSTANT, NAME, ROW_NUMBER, SPAN, WORDS, Codec
from horae.stores.declaration import Field, Mark, Reader, Writer
from horae.stores.store import SqlStore
from horae.stores.tables.jobs import ATTEMPT, FINISHED_JOBS, INSERT_COLUMNS, JOBS, SNAPSHOT, jobs, runs
from horae.stores.tables.schedules import SCHEDULES
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import end, put, read_job, take

# What a new job says that has no column of the job's row: it goes into other tables, or nowhere.
NOT_IN_THE_ROW = {
    "after", "entry", "expect", "gather", "number", "on_parent_dead", "request_hash", "shard_key", "typed_key",
}  # fmt: skip
# What a filter says in words of its own, so that stores/jobs.py and stores/schedules.py must know it.
SPECIAL = {"terms", "created_after", "created_before", "machinery", "not_held", "queues", "states", "tag"}
SPECIAL_OF_SCHEDULES = {"not_tzdata", "queues", "text"}


@dataclass(frozen=True, slots=True)
class Parcel:
    """A value that no table of ours keeps."""

    number: int
    name: str
    sent_at: datetime
    opened: bool = False
    fragile: bool | None = None
    takes: timedelta | None = None
    notes: tuple[str, ...] = ()
    seen: int = 7
    weight: int = 0


_TWICE = Codec(COUNT.type, lambda weight, number: weight * number, beside="id")
PARCEL = (
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True),
    Field("name", NAME, column="label", required=True),
    Field("sent_at", INSTANT, required=True),
    Field("opened", FLAG, required=True),
    Field("fragile", FLAG),
    Field("takes", SPAN),
    Field("notes", WORDS),
    Field("weight", _TWICE),
    Field("shelf", NAME, Mark.INTERNAL),
)


def reader(*kept: Field, absent: tuple[str, ...] = ("seen",)) -> Reader[Parcel]:
    table = Table("parcels", MetaData(), *(each.make_column() for each in kept))
    return Reader(table, Parcel, kept, absent=absent)


def test_what_is_written_is_read_back() -> None:
    parcels = reader(*PARCEL)
    writer = Writer([each for each in PARCEL if each.is_written])
    whole = Parcel(3, "a", NOON, True, False, timedelta(seconds=1.5), ("x", "y"), weight=2)
    bare = Parcel(4, "b", datetime(1969, 7, 20, 20, 17, tzinfo=UTC), weight=1)
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        parcels.table.create(connection)
        for each in (whole, bare):
            connection.execute(insert(parcels.table), {"id": each.number, **writer.row(each)})
        found = connection.execute(select(*parcels.select, parcels.table.c.shelf).order_by(parcels.table.c.id)).all()

    assert [parcels.read(row) for row in found] == [replace(whole, weight=6), replace(bare, weight=4)]
    assert parcels.columns == ("id", "label", "sent_at", "opened", "fragile", "takes", "notes", "weight")
    assert writer.columns == ("label", "sent_at", "opened", "fragile", "takes", "notes", "weight")


def test_a_null_is_read_as_its_codec_says() -> None:
    values: dict[str, Any] = {"id": 1, "label": "a", "sent_at": 0, "opened": 0, "weight": 5}
    parcels = reader(*PARCEL)

    found = parcels.read([values.get(name) for name in parcels.columns])

    assert (found.notes, found.fragile, found.takes, found.seen) == ((), None, None, 7)


def test_a_forgotten_field_is_refused() -> None:
    with pytest.raises(TypeError, match=r"parcels: Parcel\.name has no column"):
        reader(*(each for each in PARCEL if each.name != "name"))


def test_a_field_that_the_value_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match=r"parcels: Parcel\.colour is no field"):
        reader(*PARCEL, Field("colour", NAME))


def test_an_unreadable_field_is_named() -> None:
    parcels = reader(*PARCEL)
    row = [1, "a", "yesterday", 0, None, None, None, 5]

    assert parcels.unreadable(row) == "sent_at"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter."""

    name: str | None = None
    opened: bool | None = None
    sent_at: datetime | None = None
    seen: int | None = None
    other: str | None = "not a field"


def conditions(wanted: Wanted) -> list[str]:
    parcels = reader(*PARCEL)
    return [str(each.compile(compile_kwargs={"literal_binds": True})) for each in parcels.equal(wanted)]


def test_a_filter_is_compared_with_what_is_stored() -> None:
    assert conditions(Wanted()) == []
    assert conditions(Wanted(name="a", opened=False)) == ["parcels.label = 'a'", "parcels.opened = 0"]
    assert conditions(Wanted(sent_at=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))) == ["parcels.sent_at = 1000000"]


def test_what_a_table_does_not_keep_cannot_be_found_there() -> None:
    assert conditions(Wanted(seen=7)) == ["false"]


# -- the declarations of ours ----------------------------------------------------------------------------------------


def test_everything_that_a_new_job_says_is_inserted() -> None:
    inserted = {each.source for each in JOBS.condition(Mark.INSERTED)}

    assert {each.name for each in fields(NewJob)} - inserted == NOT_IN_THE_ROW
    assert inserted <= {each.name for each in fields(NewJob)}
    assert set(INSERT_COLUMNS) <= set(jobs.c.keys())


def test_a_run_copies_columns_of_the_same_name_and_type() -> None:
    for name in (*ATTEMPT, *SNAPSHOT):
        assert (name, str(runs.c[name].type)) == (name, str(jobs.c[name].type))
    assert not set(ATTEMPT) & set(SNAPSHOT)


def test_a_plain_filter_of_jobs_or_schedules_needs_no_code() -> None:
    """A field of a filter is a field of the value, and compared by the declaration, or it is known to be special."""
    plain = {each.name for each in fields(Filter)} - SPECIAL
    plain_of_schedules = {each.name for each in fields(ScheduleFilter)} - SPECIAL_OF_SCHEDULES

    assert plain <= {each.name for each in fields(Job)}
    assert {FINISHED_JOBS[name].table for name in plain} == {runs}
    assert {SCHEDULES[name].table for name in plain_of_schedules} == {SCHEDULES.table}


def test_a_finished_job_is_what_it_was_but_for_what_only_a_live_one_has(store: SqlStore) -> None:
    new = a_new_job(
        {"n": 1}, tags=("a", "b"), priority="high", object_type="memory", object_id="m1", action="verify",
        trace_id="t" * 32, group="etl", timeout=timedelta(seconds=3), checkpoint='{"at":1}', fire_at=NOON,
    )  # fmt: skip
    [number] = put(store, new)
    [job] = take(store)
    end(store, job, result='{"ok":true}')

    ended = read_job(store, number)

    lived: dict[str, Any] = {"leased_until": None, "state": "succeeded", "finished_at": NOON, "result": {"ok": True}}
    assert ended == replace(job, **lived)
