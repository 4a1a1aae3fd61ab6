"""Read an owner's objects whole: as they stand, with their links, evidence and versions, all as of one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from horae.core.dataclass import dataclass
from horae.core.governance.evidence import Evidence
from horae.core.governance.objects import GovernedObject, ObjectVersion
from horae.ports.store import Tx
from horae.ports.world import World

T = TypeVar("T")
PAGE = 200  # objects read at once
VERSIONS = 500  # versions read at once: one may have a quarter of a megabyte of content


@dataclass(frozen=True, slots=True)
class WithLinks:
    """An object and what it rests on."""

    object: GovernedObject
    rests_on: tuple[str, ...] = ()


Part = WithLinks | tuple[GovernedObject, Evidence | ObjectVersion]


def read_whole(world: World, use: Callable[[Iterator[Part]], T], *, owner: str | None = None) -> T:
    """Give *use* all objects, or those of one owner, in parts: an object comes before its evidence and versions.

    It is one read transaction, so that the parts fit together; *use* may be called again where the database asks for
    another try, and should not wait for anybody.
    """

    def read(tx: Tx) -> T:
        return use(_parts(tx, owner))

    return world.route(owner=owner).store.read(read, unbounded=True)


def _parts(tx: Tx, owner: str | None) -> Iterator[Part]:
    after = 0
    while page := tx.objects.walk(owner=owner, after=after, limit=PAGE):
        yield from _with_links(tx, page)
        evidence = tx.evidence.of_many([it.number for it in page])
        for it in page:
            yield from ((it, piece) for piece in evidence.get(it.number, ()))
        yield from _versions(tx, page)
        after = page[-1].number


def _with_links(tx: Tx, page: Sequence[GovernedObject]) -> Iterator[WithLinks]:
    links = tx.objects.rests_on(it.number for it in page)
    lower = tx.objects.by_number(each.rests_on for each in links)
    grounds: dict[int, list[str]] = {}
    for each in links:
        below = lower[each.rests_on]
        grounds.setdefault(each.object, []).append(f"{below.kind}:{below.id}")
    yield from (WithLinks(it, tuple(grounds.get(it.number, ()))) for it in page)


def _versions(tx: Tx, page: Sequence[GovernedObject]) -> Iterator[Part]:
    by_number = {it.number: it for it in page}
    after = (0, 0)
    while some := tx.objects.versions_of(by_number, after=after, limit=VERSIONS):
        yield from ((by_number[each.object], each) for each in some)
        after = (some[-1].object, some[-1].version)
