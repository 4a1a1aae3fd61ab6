"""``horae db`` in a cluster: the same for each of its databases, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from horae.cli import words
from horae.cli.failures import Exit
from horae.cli.terminal import Terminal, opened, redact_url, sqlite_file
from horae.errors import HoraeError

if TYPE_CHECKING:
    from horae.core.cluster.shard_map import Member
    from horae.stores.cluster.visiting import Visit, Visitor
    from horae.stores.schema import Schema
    from horae.stores.store import SqlStore

T = TypeVar("T")


def visitor(terminal: Terminal) -> Visitor:
    from horae.stores.cluster.addresses import read_urls
    from horae.stores.cluster.visiting import Visitor

    settings = terminal.settings
    return Visitor(settings.database_url, read_urls(settings.cluster_urls), settings.timeouts)


def are_several(terminal: Terminal) -> bool:
    """Return whether the database belongs to a cluster; one that is not there yet, or does not answer, does not."""
    file = sqlite_file(terminal.settings.database_url)
    if file is not None and not file.exists():
        return False
    with suppress(HoraeError):
        return visitor(terminal).look() is not None
    return False


def visit_all(terminal: Terminal, doing: str, work: Callable[[Member, SqlStore], T]) -> list[Visit[T]]:
    """Do *work* in every database, and say before each which it is."""
    visits: list[Visit[T]] = []

    def begin(member: Member) -> None:
        terminal.say(f"{doing} {member.name} …")

    for visit in visitor(terminal).visit(work, begin):
        visits.append(visit)
        if visit.problem is not None:
            terminal.say(f"{visit.member.name}: {visit.problem}")
    return visits


def migrate_all(terminal: Terminal) -> None:
    """Migrate database by database; what is done is passed over when it is repeated."""
    from horae.actions.partitions import keep_partitions
    from horae.stores import schema

    def work(_member: Member, store: SqlStore) -> tuple[Schema, int]:
        found = store.run_with_retry(lambda: schema.migrate(store.engine))
        url = store.engine.url.render_as_string(hide_password=False)
        with opened(terminal, url=url, in_cluster=False) as world:
            return found, keep_partitions(world, patient=True)

    visits = visit_all(terminal, "migrating", work)
    documents = [
        _document(each, each.result and each.result[0])
        | {"migrated": each.result is not None and not _is_done(each.result[0]),
           "partitions": each.result[1] if each.result else 0}
        for each in visits
    ]  # fmt: skip
    lines = [f"{_where(each)}: {_migrated(*each.result) if each.result else each.problem}" for each in visits]
    _print(terminal, documents, lines, any(each.problem for each in visits), "Repeat it when all of them answer.")


def check_all(terminal: Terminal) -> None:
    """Say of each database which tables it has."""
    from horae.stores import schema

    def work(_member: Member, store: SqlStore) -> Schema:
        return store.run_with_retry(lambda: schema.inspect_schema(store.engine))

    visits = visit_all(terminal, "asking", work)
    documents = [_document(each, each.result) for each in visits]
    lines = [f"{_where(each)}: {_found(each.result) if each.result else each.problem}" for each in visits]
    pending = any(each.result is None or not each.result.is_current for each in visits)
    _print(terminal, documents, lines, pending, "Run: horae db migrate")


def _print(terminal: Terminal, documents: Sequence[Any], lines: Sequence[str], is_open: bool, advice: str) -> None:
    terminal.result({"databases": list(documents)}, "\n".join(lines))
    if is_open:
        terminal.say(advice)
        raise typer.Exit(Exit.FINDINGS)


def _document(visit: Visit[Any], schema: Schema | None) -> dict[str, Any]:
    from horae.stores.schema import HEAD

    return {
        "number": visit.member.number,
        "name": visit.member.name,
        "found": None if schema is None else schema.found,
        "wanted": HEAD,
        "current": schema is not None and schema.is_current,
        "served": schema is not None and (schema.is_current or schema.is_near),
        "problem": None if visit.problem is None else str(visit.problem),
    }


def _where(visit: Visit[Any]) -> str:
    return f"{visit.member.name} ({redact_url(visit.url)})"


def _is_done(schema: Schema) -> bool:
    return schema.is_current or schema.is_newer


def _migrated(found: Schema, partitions: int) -> str:
    done = f"migrated from {found.found or 'nothing'} to {found.wanted}"
    if _is_done(found):
        done = "already current" if found.is_current else f"has {found.found}, which is newer than this Horae"
    return done + (f", {words.count(partitions, 'partition')} made" if partitions else "")


def _found(schema: Schema) -> str:
    if schema.is_current:
        return f"tables of version {schema.found}, current"
    near = ", served meanwhile" if schema.is_near else ""
    return f"tables of version {schema.found}, wanted {schema.wanted}{near}"
