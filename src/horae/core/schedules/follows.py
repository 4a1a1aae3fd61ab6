"""Schedules that follow others: a circle among them would never fire."""

from __future__ import annotations

from collections.abc import Mapping


def cycle(edges: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return a circle among "follows" relations, as the path that closes it; None when there is none."""
    done: set[str] = set()
    for start in sorted(edges):
        path: dict[str, None] = {}  # in the order walked
        walking = [(start, iter(edges.get(start, ())))] if start not in done else []
        path[start] = None
        while walking:
            key, parents = walking[-1]
            parent = next(parents, None)
            if parent is None:
                walking.pop()
                del path[key]
                done.add(key)
            elif parent in path:
                walked = list(path)
                return (*walked[walked.index(parent) :], parent)
            elif parent not in done:
                path[parent] = None
                walking.append((parent, iter(edges.get(parent, ()))))
    return None
