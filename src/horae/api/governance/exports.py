"""The lines of an export of objects: written in one read, and given out as slowly as the reader likes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from horae.actions.governance.exports import Part, WithLinks, read_whole
from horae.api.governance.object_values import Evidence, GovernedObject, ObjectVersion
from horae.api.values import to_json, to_public
from horae.core.audit.exports import Line, write_line
from horae.core.governance import objects as core
from horae.core.time.instants import iso
from horae.ports.world import World

FORMAT, VERSION = "horae.objects", 1
IN_MEMORY = 4 * 1024 * 1024  # bytes; a longer export waits in a nameless file, whose place is free when it is closed


def export_lines(world: World, *, owner: str | None) -> Iterator[Line]:
    """Return the lines of an export as of now; a slow reader holds no transaction.

    Of all owners of a cluster it reads one database after another; one that is away is an error, never a gap.
    """
    header = {"export": FORMAT, "format": VERSION, "exported_at": iso(world.clock.now()), "owner": owner}

    def write(parts: Iterator[Part]) -> tuple[IO[str], Counter[str]]:
        counts: Counter[str] = Counter()
        spool: Any = SpooledTemporaryFile(IN_MEMORY, "w+", encoding="ascii")  # noqa: SIM115 - its reader closes it
        try:
            for line in _lines(parts, counts):
                spool.write(write_line(line))
        except BaseException:
            spool.close()
            raise
        spool.seek(0)
        return spool, counts

    with ExitStack() as written:
        spools, counts = list[IO[str]](), Counter[str]({"objects": 0, "evidence": 0, "versions": 0})
        for shard in world.shards() if owner is None else [world]:
            spool, counted = read_whole(shard, write, owner=owner)
            spools.append(written.enter_context(spool))
            counts.update(counted)
        return _read(header, spools, {"end": True, **counts}, written.pop_all())


def _read(header: Line, spools: list[IO[str]], end: Line, written: ExitStack) -> Iterator[Line]:
    with written:
        yield header
        for spool in spools:
            yield from map(json.loads, spool)
        yield end


def _lines(parts: Iterator[Part], counts: Counter[str]) -> Iterator[Line]:
    for part in parts:
        if isinstance(part, WithLinks):
            counts["objects"] += 1
            facts = to_json(to_public(GovernedObject, part.object))
            yield {"object": facts | {"rests_on": list(part.rests_on)}}
            continue
        it, value = part
        about = {"owner": it.owner, "of": f"{it.kind}:{it.id}"}
        if isinstance(value, core.ObjectVersion):
            counts["versions"] += 1
            yield {"version": to_json(to_public(ObjectVersion, value)), **about}
        else:
            counts["evidence"] += 1
            yield {"evidence": to_json(to_public(Evidence, value)), **about}
