"""The lines of an export of objects: written in one read, and given out as slowly as the reader likes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
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
    """Return the lines of an export as of now; a slow reader holds no transaction."""
    at = world.clock.now()

    def write(parts: Iterator[Part]) -> IO[str]:
        spool: Any = SpooledTemporaryFile(IN_MEMORY, "w+", encoding="ascii")  # noqa: SIM115 - its reader closes it
        try:
            for line in _lines(parts, at, owner):
                spool.write(write_line(line))
        except BaseException:
            spool.close()
            raise
        spool.seek(0)
        return spool  # type: ignore[no-any-return]  # it is a file of text

    return _read(read_whole(world, write, owner=owner))


def _read(spool: IO[str]) -> Iterator[Line]:
    with spool:
        for text in spool:
            yield json.loads(text)


def _lines(parts: Iterator[Part], at: datetime, owner: str | None) -> Iterator[Line]:
    yield {"export": FORMAT, "format": VERSION, "exported_at": iso(at), "owner": owner}
    counts = {"objects": 0, "evidence": 0, "versions": 0}
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
    yield {"end": True, **counts}
