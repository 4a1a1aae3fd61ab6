"""Copies of the database, taken while it is in use and brought back; time turned back harms nobody."""

import os
import signal
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from horae import Horae
from horae.actions.audit import verify_audit
from horae.actions.budgets.repair import check as check_budgets
from horae.actions.governance.invariants import check_objects
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Request
from horae.core.jobs.job import Job, Lease
from horae.errors import InvalidInput, LeaseLost, StoreFull
from horae.ports.claims import Claim
from horae.stores import backup
from tests.cli.conftest import Command, Process

LIVE = Path(".horae/horae.db")
LEASE = timedelta(minutes=5)


@pytest.fixture
def app(environment: Path) -> Iterator[Horae]:
    """An application with its database open, as a running process has it."""
    with Horae() as app:
        yield app


def enqueue(app: Horae, number: int = 1) -> list[str]:
    return [jobs.enqueue(app.world, Request("work", {"number": each})).id for each in range(number)]


def claim(app: Horae, limit: int = 1) -> list[Lease]:
    now = app.world.clock.now()
    taken = app.world.store.claim(Claim("default", limit, "old-worker", LEASE), now=now)
    return [Lease(job.number, job.token) for job in taken]


def states(app: Horae) -> dict[str, int]:
    return {state: count for state, count in jobs.counts(app.world).get("default", {}).items() if count}


def claim_objects(app: Horae, limit: int) -> list[Job]:
    return claims.claim(app.world, "governance", limit, worker_id="old-worker", lease=LEASE)


# -- backup ------------------------------------------------------------------------------------------------------------


def test_a_copy_says_what_it_holds_and_is_its_owners_alone(app: Horae, horae: Command) -> None:
    enqueue(app, 3)

    answer = horae("db", "backup", "copy.db", "--json").json["backup"]

    assert answer["rows"]["horae_jobs"] == 3
    assert answer["bytes"] == Path("copy.db").stat().st_size
    assert stat.S_IMODE(Path("copy.db").stat().st_mode) == 0o600
    assert [file.name for file in Path().iterdir() if file.name.startswith("copy")] == ["copy.db"]


def test_a_copy_that_is_there_is_not_replaced_unless_told(app: Horae, horae: Command) -> None:
    enqueue(app)
    horae("db", "backup", "copy.db")
    enqueue(app)

    refused = horae("db", "backup", "copy.db")
    forced = horae("db", "backup", "copy.db", "--force", "--json")

    assert refused.code == 2
    assert "--force" in refused.err
    assert forced.json["backup"]["rows"]["horae_jobs"] == 2


def test_a_database_that_is_not_there_is_not_made_for_the_sake_of_a_copy(environment: Path, horae: Command) -> None:
    assert horae("db", "backup", "copy.db").code == 3
    assert list(environment.iterdir()) == []


def test_a_copy_under_load_shows_one_moment(app: Horae, environment: Path) -> None:
    """Pairs are written in one transaction each: a copy that holds one of a pair has mixed two moments."""
    ended = threading.Event()
    pair = [Request("work", {"ballast": "x" * 2_000}), Request("work", {"ballast": "y" * 2_000})]
    for _ in range(500):
        jobs.enqueue_many(app.world, pair)

    def write() -> None:
        while not ended.is_set():
            jobs.enqueue_many(app.world, pair)

    seen: list[int] = []
    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for number in range(5):
            copy = backup.back_up(LIVE, Path(f"copy-{number}.db"), progress=lambda done, _: seen.append(done))
            assert copy.rows["horae_jobs"] % 2 == 0
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    assert seen


def test_a_copy_that_finds_no_room_leaves_nothing_behind(app: Horae, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue(app)
    connect = sqlite3.connect

    def small(path: Path, **options: object) -> sqlite3.Connection:
        connection = connect(path, **options)  # type: ignore[call-overload]
        if str(path).endswith(".partial"):
            connection.execute("PRAGMA max_page_count = 4")
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(StoreFull):
        backup.back_up(LIVE, Path("copy.db"))

    assert [file.name for file in Path().iterdir() if file.name.startswith("copy")] == []


@pytest.mark.parametrize(
    ("verb", "url", "command"),
    [
        ("backup", "postgresql://me:hidden@db:5433/work", "pg_dump --format=custom --file=f.dump"),
        (
            "restore",
            "postgresql://me:hidden@db:5433/work",
            "pg_restore --single-transaction --dbname=postgresql://me@db:5433/work_restored",
        ),
        ("backup", "postgresql://me:hidden@a:1,b:2/work", "'postgresql://me@/work?host=a%2Cb&port=1%2C2'"),
        ("backup", "mysql://me:hidden@db/work", "mariadb-dump --single-transaction"),
        ("restore", "mysql://me:hidden@db/work", "mariadb --host=db --user=me work < f.dump"),
    ],
)
def test_a_server_is_copied_with_its_own_tool_and_no_password_is_shown(
    verb: str, url: str, command: str, horae: Command
) -> None:
    ended = horae("db", verb, "f.dump", "--db", url)

    assert ended.code == 2
    assert command in ended.err
    assert "hidden" not in ended.err
    assert "***" not in ended.err


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_copy_of_ours_is_refused_and_nothing_changes(app: Horae, horae: Command) -> None:
    enqueue(app)
    Path("text.db").write_text("not a database")
    sqlite3.connect("other.db").execute("CREATE TABLE other (id)").connection.close()
    app.close()
    before = LIVE.read_bytes()

    codes = [horae("db", "restore", name).code for name in ("text.db", "other.db", "missing.db")]

    assert codes == [2, 2, 3]
    assert LIVE.read_bytes() == before


def test_a_damaged_copy_is_refused(app: Horae, horae: Command) -> None:
    enqueue(app, 200)
    horae("db", "backup", "copy.db")
    app.close()
    damaged = bytearray(Path("copy.db").read_bytes())
    damaged[4096 * 3 : 4096 * 12] = b"\xff" * (4096 * 9)
    Path("copy.db").write_bytes(damaged)

    ended = horae("db", "restore", "copy.db")

    assert ended.code == 2
    assert "damaged" in ended.err
    with pytest.raises(InvalidInput):
        backup.examine(Path("copy.db"))


def test_a_copy_of_a_newer_horae_is_refused(app: Horae, horae: Command) -> None:
    enqueue(app)
    horae("db", "backup", "copy.db")
    app.close()
    with sqlite3.connect("copy.db") as copy:
        copy.execute("UPDATE horae_version SET version_num = '9999'")
    copy.close()

    ended = horae("db", "restore", "copy.db")

    assert ended.code == 78
    assert "newer" in ended.err


def test_a_database_that_somebody_has_open_is_not_replaced(app: Horae, horae: Command) -> None:
    enqueue(app)
    horae("db", "backup", "copy.db")

    ended = horae("db", "restore", "copy.db")

    assert ended.code == 4
    assert "--force" in ended.err


def test_a_living_worker_is_named(project: Path, horae: Command, start: Callable[..., Process]) -> None:
    horae("job", "enqueue", "endless", "--app", "tasks:app", "--db", "sqlite:///tasks.db")
    worker = start("worker", "tasks:app", "--db", "sqlite:///tasks.db", "--json")
    node = worker.until("started")["worker"]
    worker.until_it_says("endless has begun")
    horae("db", "backup", "copy.db", "--db", "sqlite:///tasks.db")

    ended = horae("db", "restore", "copy.db", "--db", "sqlite:///tasks.db")
    worker.started.send_signal(signal.SIGKILL)
    worker.started.communicate()
    after = horae("db", "restore", "copy.db", "--db", "sqlite:///tasks.db")

    assert ended.code == 4
    assert node in ended.err
    assert after.code == 0, "a worker that was killed does not stand in the way"


# -- restore -----------------------------------------------------------------------------------------------------------


def test_a_restored_database_holds_what_the_copy_held_and_the_other_is_kept(app: Horae, horae: Command) -> None:
    enqueue(app, 2)
    horae("db", "backup", "copy.db")
    enqueue(app, 3)
    app.close()

    answer = horae("db", "restore", "copy.db", "--json").json["restore"]

    assert answer["rows"]["horae_jobs"] == 2
    assert states(app) == {"queued": 2}
    assert backup.examine(Path(answer["kept"])).rows["horae_jobs"] == 5
    assert Path("copy.db").exists()
    app.close()
    assert horae("db", "restore", "copy.db", "--json").json["restore"]["kept"].endswith(".before-restore.2")


def test_it_is_in_the_audit_who_turned_time_back(app: Horae, horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue(app)
    horae("db", "backup", "copy.db")
    app.close()
    monkeypatch.setenv("HORAE_ACTOR", "ada")
    horae("db", "restore", "copy.db")

    found = app.world.store.read(lambda tx: tx.audit.find(object_id="horae.db", limit=5, before=None))

    assert [(entry.actor, entry.verb) for _, entry in found] == [("ada", "restore")]


def test_nothing_is_there_yet_and_a_copy_makes_it(app: Horae, horae: Command) -> None:
    enqueue(app)
    horae("db", "backup", "copy.db")

    ended = horae("db", "restore", "copy.db", "--db", "sqlite:///elsewhere/horae.db", "--json")

    assert ended.json["restore"]["kept"] is None
    assert backup.examine(Path("elsewhere/horae.db")).rows["horae_jobs"] == 1


def test_a_database_that_cannot_be_read_any_more_is_set_aside(app: Horae, horae: Command) -> None:
    enqueue(app, 50)
    horae("db", "backup", "copy.db")
    app.close()
    LIVE.write_bytes(b"\xff" * 100_000)

    ended = horae("db", "restore", "copy.db", "--json")

    assert ended.code == 0, ended.err
    assert Path(ended.json["restore"]["kept"]).read_bytes() == b"\xff" * 100_000
    assert states(app) == {"queued": 50}


def test_a_worker_that_lived_through_a_restore_cannot_end_what_it_held(app: Horae, horae: Command) -> None:
    """I3: the restored rows know nothing of the newer token, so it must not fit by chance."""
    enqueue(app)
    horae("db", "backup", "copy.db")
    (lease,) = claim(app)
    claimed_again = 3
    for _ in range(claimed_again):
        endings.release(app.world, lease.job_id, lease.token)
        (lease,) = claim(app)

    assert horae("db", "restore", "copy.db", "--force").code == 0
    fresh = [claim(app)[0]]
    for _ in range(lease.token):
        endings.release(app.world, fresh[-1].job_id, fresh[-1].token)
        fresh += claim(app)

    with pytest.raises(LeaseLost):
        endings.ack(app.world, lease.job_id, lease.token)
    assert lease.job_number == fresh[0].job_number
    assert all(each.token > lease.token for each in fresh)


def test_a_job_that_the_copy_does_not_know_shares_its_number_with_no_new_one(app: Horae, horae: Command) -> None:
    enqueue(app)
    horae("db", "backup", "copy.db")
    enqueue(app, 5)
    held = claim(app, 6)

    horae("db", "restore", "copy.db", "--force")
    enqueue(app, 6)
    fresh = claim(app, 10)

    newer = {each.job_number for each in held if each.job_number > 1}
    assert newer.isdisjoint({each.job_number for each in fresh})
    for lease in held:
        with pytest.raises((LeaseLost, LookupError)):
            endings.ack(app.world, lease.job_id, lease.token)


def test_what_ran_when_the_copy_was_made_is_handed_on_as_lost(app: Horae, horae: Command) -> None:
    enqueue(app, 2)
    (lease,) = claim(app)
    horae("db", "backup", "copy.db")
    endings.ack(app.world, lease.job_id, lease.token)

    answer = horae("db", "restore", "copy.db", "--force", "--json").json["restore"]

    assert answer["lost"] == 1
    assert states(app) == {"queued": 2}
    assert [run.outcome for run in jobs.runs(app.world, lease.job_id)] == ["lost"]
    with pytest.raises(LeaseLost):
        endings.ack(app.world, lease.job_id, lease.token)


def test_a_process_that_has_it_open_sees_the_restored_rows_at_once(app: Horae, horae: Command) -> None:
    """Forced: the file stays the same file, so that nobody goes on writing to one that has no name any more."""
    enqueue(app, 2)
    horae("db", "backup", "copy.db")
    enqueue(app, 5)
    inode = os.stat(LIVE).st_ino

    assert horae("db", "restore", "copy.db", "--force").code == 0

    assert states(app) == {"queued": 2}
    assert os.stat(LIVE).st_ino == inode
    enqueue(app)
    assert states(app) == {"queued": 3}


def test_a_copy_of_before_the_baseline_is_refused_with_the_way_out(app: Horae, horae: Command) -> None:
    enqueue(app)
    horae("db", "backup", "copy.db")
    with sqlite3.connect("copy.db") as connection:
        connection.execute("UPDATE horae_version SET version_num = '0003'")
    connection.close()

    ended = horae("db", "restore", "copy.db", "--json")

    ended.assert_refused(78, "backup_too_old", {"version": "0003"})
    assert states(app) == {"queued": 1}


def test_objects_come_back_with_their_plans_and_a_late_verdict_changes_none(app: Horae, horae: Command) -> None:
    kept = app.objects.propose("memory", "Ann likes tea", subject="Ann", evidence=["chat:1"])
    late = app.objects.propose("memory", "Bob likes rye", subject="Bob", evidence=["chat:2"])
    (held,) = [each for each in claim_objects(app, 2) if each.object_id == late.id]
    horae("db", "backup", "copy.db")
    app.objects.conclude(kept.id, "confirmed")
    gone = app.objects.propose("memory", "Cid likes ale", subject="Cid", evidence=["chat:3"])
    app.close()

    assert horae("db", "restore", "copy.db").code == 0

    with pytest.raises(LeaseLost):
        endings.ack(app.world, held.id, held.token, result={"verdict": "refuted"})
    assert [str(each) for each in check_objects(app.world)] == []
    assert app.world.store.read(check_budgets) == []
    assert [each.complaints for each in verify_audit(app.world) if each.complaints] == []
    assert {each.id: each.status for each in app.objects.list()} == {kept.id: "candidate", late.id: "candidate"}
    again = app.objects.propose("memory", "Cid likes ale", subject="Cid", id=gone.id, evidence=["chat:3"])
    assert (again.deduplicated, again.job == gone.job) == (False, False)
