"""The glossary has every word of the public surface: states, rooms and public values."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

import horae
import horae.api
import horae.attention
from horae import Client, HoraeError
from horae.api.queues import Worker
from horae.core.access.callers import Token
from horae.core.attention.lanes import EventState, WaitState
from horae.core.attention.task import TaskState
from horae.core.jobs.acts import ActState
from horae.core.jobs.job import Ending, State
from horae.core.schedules.schedule import Verdict
from horae.core.schedules.status import ScheduleStatus
from scripts.docs import REFERENCE, machines
from tests.support.rooms import rooms_of

TEXT = (REFERENCE / "glossary.md").read_text(encoding="utf-8")
BEFORE, _, STATES = TEXT.partition("\n## States\n")
WORDS = re.findall(r"^\| (?!Word )([^|]+?) \| [^|]+ \|$", BEFORE, re.M)
SPANS = set(re.findall(r"`(\w+)`", TEXT))
STATE_ROWS: list[tuple[str, str]] = re.findall(r"^\| (?!State )([^|]+?) \| ([^|]+?) \| [^|]+ \|$", STATES, re.M)
PLUMBING = {"horae.api.gather", "horae.api.here", "horae.api.operation"}  # how rooms are made; no user meets these
LITERALS: dict[str, Any] = {
    "act": ActState,
    "access token": inspect.signature(Token.state, eval_str=True).return_annotation,
    "event": EventState,
    "fire": Verdict,
    "job": State,
    "run": Ending,
    "schedule": ScheduleStatus,
    "task": TaskState,
    "wait": WaitState,
    "worker": get_type_hints(Worker)["state"],
}


def spaced(name: str) -> str:
    """``JobHandle`` as ``job handle``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def is_explained(name: str) -> bool:
    """Tell whether a class is in the glossary: as it is, in a code span, or as a word that it begins or ends with."""
    return name in SPANS or any(re.search(rf"^{word}\b|\b{word}$", spaced(name)) for word in WORDS)


def singular(name: str) -> str:
    if name.endswith("ches"):
        return name.removesuffix("es")
    return re.sub(r"ies$", "y", name) if name.endswith("ies") else name.removesuffix("s")


def public_classes() -> Iterator[str]:
    for module in (horae, horae.attention):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and not (issubclass(value, HoraeError) or value is horae.Horae):
                yield name


def public_values() -> Iterator[str]:
    """Return the values that rooms take and answer."""
    for found in pkgutil.iter_modules(horae.api.__path__, "horae.api."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if is_dataclass(value) and getattr(value, "__module__", "") == module.__name__ not in PLUMBING:
                yield name


def test_no_word_has_two_meanings_and_words_are_in_order() -> None:
    tables = [re.findall(r"^\| (?!Word )([^|]+?) \|", part, re.M) for part in BEFORE.split("\n## ")[1:]]

    assert len(WORDS) == len(set(WORDS))
    assert tables == [sorted(words) for words in tables]


@pytest.mark.parametrize("thing", LITERALS)
def test_every_state_of_a_thing_is_explained(thing: str) -> None:
    explained = {state for state, of in STATE_ROWS if thing in of.split(", ")}

    assert set(get_args(LITERALS[thing])) - explained == set()


def test_every_state_of_a_machine_is_explained() -> None:
    explained = {state for state, _ in STATE_ROWS}
    drawn = {state for machine in machines() for arrow in machine.arrows.items() for state in (arrow[0][0], arrow[1])}

    assert drawn - explained == set()


def test_every_room_is_explained() -> None:
    with Client("http://127.0.0.1") as client:
        rooms = [name.replace("_", " ") for name in rooms_of(client)]

    assert [name for name in rooms if name not in WORDS and singular(name) not in WORDS] == []


def test_every_public_class_is_explained() -> None:
    assert [name for name in public_classes() if not is_explained(name)] == []


def test_every_public_value_is_explained() -> None:
    assert [name for name in public_values() if not is_explained(name)] == []
