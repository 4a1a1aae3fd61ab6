"""The verbs of entries about governed objects: an edge has the name of its event, all else has one of these."""

from __future__ import annotations

from typing import Literal, get_args

from horae.core.governance.machines import MACHINES

ObjectVerb = Literal[
    "acknowledged",
    "admitted",
    "asked",
    "concluded",
    "contested",
    "dead",
    "ended",
    "erased",
    "evidence",
    "failed",
    "lost",
    "overtaken",
    "planned",
    "put_back",
    "released",
    "renewed",
    "replanned",
    "superseded",
    "unchanged",
    "used",
]
OBJECT_VERBS: tuple[ObjectVerb, ...] = get_args(ObjectVerb)
EVENTS = tuple(dict.fromkeys(("proposed", *(event for machine in MACHINES.values() for event in machine.events))))
