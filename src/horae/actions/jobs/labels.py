"""Adding jobs to the map of labels, so that lists find them without reading past others."""

from __future__ import annotations

from dataclasses import replace

from horae.core.cluster.numbers import FIRST_NUMBER
from horae.core.jobs.labels import Labelled, blocks_of
from horae.ports.store import Tx
from horae.ports.world import World

AT_ONCE = 16_384  # numbers that one step reads; the database puts them together, a step writes some hundred rows


def label_jobs(world: World) -> bool:
    """Add jobs to the map in one bounded step; return whether the next may follow at once.

    Any number of processes may call it: a step is written only where nothing else was written in between.
    """
    store, now = world.route().store, world.clock.now()
    before = store.read(lambda tx: tx.labels.state())
    if before.labelled == before.marked:

        def advance(tx: Tx) -> bool:
            state = tx.labels.state(lock=True)
            state = state.advance(tx.labels.next_number(), tx.labels.horizon(), now)
            tx.labels.save(state)
            return state.labelled < state.marked

        return store.transact(advance)
    low, high = before.labelled, min(before.marked, before.labelled + AT_ONCE)
    if before.marked >= FIRST_NUMBER:  # a cluster's numbers are far apart
        high = store.read(lambda tx: tx.labels.reach(low, before.marked, AT_ONCE))
    late = store.read_uncommitted(lambda tx: tx.labels.read_live(low, high))

    def read(tx: Tx) -> list[Labelled] | None:
        if not tx.labels.has_passed(before.horizon):
            return None
        return tx.labels.read_live(low, high) + tx.labels.read_ended(low, high)

    found = store.read(read)
    if found is None:
        return False

    blocks = blocks_of([*(late or ()), *found])  # before the transaction: SQLite has one writer, who should be quick

    def write(tx: Tx) -> bool:
        if tx.labels.state(lock=True) == before:
            tx.labels.add(blocks)
            tx.labels.save(replace(before, labelled=high))
        return True

    return store.transact(write)
