"""Copies of a cluster for ``horae db backup`` and ``restore``: a folder, one file for each database, and the map."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from horae.cli.failures import Exit
from horae.cli.files import open_whole
from horae.cli.installation import copies, members
from horae.cli.terminal import Terminal, actor, opened, redact_url, sqlite_file
from horae.core.dataclass import dataclass
from horae.core.time.instants import iso
from horae.errors import ConfigurationError, HoraeError, InvalidInput, StoreUnavailable

if TYPE_CHECKING:
    from horae.actions.restore import Restored
    from horae.core.cluster.shard_map import Member, ShardMap
    from horae.ports.store import Tx
    from horae.stores.store import SqlStore

MAP = "map.json"
FORMAT = 1
DUMP = ("pg_dump", "--format=custom", "--lock-wait-timeout=60s")
CONNECT_WITHIN = "15"  # seconds
NOT_ONE_MOMENT = "The copies are not of one moment: each shows its own database as it was when it was copied."
MOVED = "Shards were moved meanwhile, so that rows may be in none of the copies. Repeat it while none move."


@dataclass(frozen=True, slots=True)
class MemberCopy:
    """The copy of one database, and what the database said of the cluster right after it was made."""

    file: str
    bytes: int
    made_at: str
    version: int
    parcels: int
    shard_map: ShardMap


def back_up_all(terminal: Terminal, folder: Path, force: bool) -> None:
    """Copy database by database; one that does not answer is named, and the others are copied."""
    from horae.clock import SystemClock

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput("backup_unwritable", path=str(folder), problem=str(problem.strerror)) from problem
    if (folder / MAP).exists() and not force:
        raise InvalidInput("backup_exists", path=str(folder / MAP))

    def work(member: Member, store: SqlStore) -> MemberCopy:
        return _copy(terminal, folder, member, store, force=force, made_at=iso(SystemClock().now()))

    visits = members.visit_all(terminal, "copying", work)
    made = [each.result for each in visits if each.result is not None]
    if not made:
        raise next(each.problem for each in visits if each.problem is not None)
    has_moved = any(each.parcels for each in made) or len({each.version for each in made}) > 1
    newest = max((each.shard_map for each in made), key=lambda each: each.version)
    by_number = {each.member.number: each for each in visits}
    document = _document(newest, iso(SystemClock().now()), has_moved) | {
        "databases": [
            {"number": member.number, "name": member.name, "address": member.address,
             "vshards": len(newest.owned_by(member.number)),
             **_copied(by_number[member.number].result, by_number[member.number].problem)}
            for member in newest.members if member.number in by_number
        ]
    }  # fmt: skip
    with open_whole(folder / MAP) as file:
        file.write(json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n")
    lines = [f"{folder / each['file']}: {copies.size(each['bytes'])}" if each["file"] else f"{each['name']}: no copy"
             for each in document["databases"]]  # fmt: skip
    terminal.result({"backup": {"folder": str(folder), **document}}, "\n".join([*lines, str(folder / MAP)]))
    terminal.say(NOT_ONE_MOMENT)
    if has_moved:
        terminal.say(MOVED)
    if has_moved or len(made) < len(visits):
        raise typer.Exit(Exit.FINDINGS)


def _document(shard_map: ShardMap, made_at: str, has_moved: bool) -> dict[str, Any]:
    return {
        "horae_cluster_backup": FORMAT,
        "made_at": made_at,
        "version": shard_map.version,
        "next_number": shard_map.next_number,
        "one_moment": False,
        "moved_meanwhile": has_moved,
    }


def _copied(made: MemberCopy | None, problem: Exception | None) -> dict[str, Any]:
    if made is None:
        return {"file": None, "bytes": 0, "made_at": None, "problem": str(problem)}
    return {"file": made.file, "bytes": made.bytes, "made_at": made.made_at, "problem": None}


def _copy(
    terminal: Terminal, folder: Path, member: Member, store: SqlStore, *, force: bool, made_at: str
) -> MemberCopy:
    from horae.stores import backup
    from horae.stores.cluster.visiting import read_copy

    live = sqlite_file(store.engine.url.render_as_string(hide_password=False))
    target = folder / f"{member.name}.{'db' if live is not None else 'dump'}"
    if live is not None:
        backup.back_up(live, target, force=force, progress=copies.progress_printer(terminal, member.name))
    else:
        if target.exists() and not force:
            raise InvalidInput("backup_exists", path=str(target))
        _dump(store, target)
    found = read_copy(store.engine)
    assert found is not None
    parcels = store.read(lambda tx: len(tx.parcels.packed()) + len(tx.parcels.expected()))
    return MemberCopy(target.name, target.stat().st_size, made_at, found[0].version, parcels, found[1])


def _dump(store: SqlStore, target: Path) -> None:
    """Let the tool of PostgreSQL copy a database; the file gets its name when it is whole."""
    url = store.engine.url
    if shutil.which(DUMP[0]) is None:
        raise ConfigurationError("backup_tool_missing", tool=DUMP[0])
    partial = target.with_name(target.name + ".partial")
    plain = url.set(drivername="postgresql")._replace(password=None)
    environment = {**os.environ, "PGCONNECT_TIMEOUT": CONNECT_WITHIN}
    if url.password is not None:
        environment["PGPASSWORD"] = str(url.password)
    command = [*DUMP, f"--file={partial}", f"--dbname={plain.render_as_string(hide_password=False)}"]
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            problem = (ended.stderr.strip().splitlines() or [f"{DUMP[0]} ended with {ended.returncode}"])[0]
            raise StoreUnavailable("backup_failed", path=redact_url(str(plain)), problem=problem)
        os.replace(partial, target)
    except OSError as problem:
        raise InvalidInput("backup_unwritable", path=str(target), problem=str(problem.strerror)) from problem
    finally:
        partial.unlink(missing_ok=True)


# -- restore -----------------------------------------------------------------------------------------------------------


def prepare_member(terminal: Terminal, working: Path, live: Path, file: Path) -> tuple[int, bool]:
    """Bring the copy of a member up to date, fence it and hold it; return as :func:`copies.prepare` does."""
    from horae.core.audit.entries import Entry
    from horae.stores import backup

    marks = backup.marks_of(live) if live.exists() else None
    with opened(terminal, url=f"sqlite:///{working}", in_cluster=False) as world:  # opening migrates it
        running = backup.fence(working, marks)
        after = {"file": file.name, "running": running}
        entry = Entry(world.clock.now(), actor(terminal), "restore", "database", live.name, after=after)

        def hold(tx: Tx) -> None:
            tx.restoring.hold()
            tx.audit.append(entry)

        world.store.transact(hold)
    return running, marks is not None


def number_in(file: Path) -> int | None:
    """Return the number of the cluster's database that a file is, or is a copy of; None where it is of no cluster."""
    from horae.stores.cluster.visiting import read_copy
    from horae.stores.opening import create_store_engine

    engine = create_store_engine(f"sqlite:///{file}")
    try:
        found = read_copy(engine)
    finally:
        engine.dispose()
    return None if found is None else abs(found[0].number)


def refuse_other_member(file: Path, live: Path) -> int | None:
    """Return which member a copy is of; refuse to write it over another one."""
    from sqlalchemy.exc import DatabaseError

    number, there = number_in(file), None
    with suppress(HoraeError, DatabaseError):  # one that cannot be read any more is set aside
        there = number_in(live) if live.exists() else None
    if there is not None and number != there:
        raise InvalidInput("cluster_restore_wrong", found=number or 0, number=there)
    return number


def settle(
    terminal: Terminal, *, here: bool = False, reason: str = "", more: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Let a restored database fit the others again and serve; say what was done, and *more* in the same document."""
    from horae.actions import restore

    with opened(terminal, held_too=True) as world:
        address = _address(terminal, world) if here else None
        done = restore.restored(world, address=address, actor=actor(terminal), reason=reason)
    terminal.result({**more, "restored": asdict(done)}, "\n".join(_lines(done)))


def _address(terminal: Terminal, world: Any) -> str:
    """Return the address of the restored database for the map; refuse it while the old one still answers."""
    from horae.errors import NotAllowed
    from horae.stores.cluster.addresses import full_url, public_address, read_urls
    from horae.stores.cluster.visiting import read_copy, refuse_missing
    from horae.stores.opening import create_store_engine

    settings, shard_map = terminal.settings, world.cluster.shard_map
    standing = world.cluster.opened(world).store.read(lambda tx: tx.cluster.standing())
    member, url, given = shard_map.member(abs(standing.number)), settings.database_url, read_urls(settings.cluster_urls)
    address = public_address(url, full_url(shard_map.members[0], url, given))
    old = full_url(member, url, given)
    if address != member.address and redact_url(old) != redact_url(url):
        try:
            refuse_missing(old)
            engine = create_store_engine(old, timeouts=settings.timeouts)
            try:
                found = read_copy(engine)
            finally:
                engine.dispose()
        except HoraeError:
            return address
        if found is not None and found[0].number == member.number:
            raise NotAllowed("cluster_old_answers", member=member.name, address=member.address)
    return address


def _lines(done: Restored) -> list[str]:
    lines = [f"version {done.version} of the map"]
    for name, each in done.databases.items():
        parts = [f"{each.running} attempts handed on as lost", f"{each.strays} rows dropped that live elsewhere now"]
        lines.append(f"{name}: serves again; " + ", ".join([*parts, f"{each.sent} rows sent on"]))
    if done.parcels:
        lines.append(f"{done.parcels} parcels brought to their end")
    return lines
