"""What readers see of jobs, runs and schedules: everything but the values of sensitive arguments.

Handlers get the real values, and so do workers that claim over HTTP. Which names are sensitive is stored with the
definition, so that a process without the code masks as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from horae.core.jobs.masking import mask, mask_text, secrets_of

if TYPE_CHECKING:
    from horae.ports.store import Tx
    from horae.ports.world import World

T = TypeVar("T")
VALUES = ("payload", "result", "progress", "checkpoint")
TEXTS = ("last_error", "error")
Names = Mapping[str, Collection[str]]  # declared names of sensitive arguments, by handler


def mask_for_readers(world: World, found: Sequence[T], *, about: Any = None) -> list[T]:
    """Return jobs, runs or schedules without their sensitive values; *about* is the payload that runs belong to."""
    concerned = {handler for each in found for handler in _handlers(each)}
    names: Names = world.route().store.read(lambda tx: tx.definitions.sensitive(concerned)) if concerned else {}
    return [_masked(each, names, about) for each in found]


def declared_names(tx: Tx, handler: str) -> Collection[str]:
    """Return the names of sensitive arguments that a handler declares."""
    return tx.definitions.sensitive([handler]).get(handler, ())


def _handlers(value: Any) -> Iterable[str]:
    """Return the handler of a value that has something to mask."""
    return [value.handler] if any(getattr(value, name, None) for name in (*VALUES, *TEXTS)) else []


def _masked(value: T, names: Names, about: Any) -> T:
    declared = names.get(getattr(value, "handler", ""), ())
    secrets = secrets_of(getattr(value, "payload", None), declared) | secrets_of(about, declared)
    changes: dict[str, Any] = {}
    for name in _fields(value):
        old = getattr(value, name)
        new = mask(old, declared) if name in VALUES else mask_text(old, secrets) if old else old
        if new is not old and new != old:
            changes[name] = new
    return replace(value, **changes) if changes else value  # type: ignore[type-var]  # it is a dataclass


def _fields(value: Any) -> list[str]:
    known = {each.name for each in fields(value)} if is_dataclass(value) else set()
    return [name for name in (*VALUES, *TEXTS) if name in known]
