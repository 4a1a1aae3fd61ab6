"""Read pickled data as plain values, without pickle: nothing is imported and nothing is called.

The opcodes are listed by :mod:`pickletools`, which only reads. A class or function is kept as its name
(:class:`Named`), an object or a call as a record of it (:class:`Made`); see docs/decisions/0122-importers.md.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

from horae.cli.imports.entries import NotBrought
from horae.core.dataclass import dataclass

LONGEST = 1024 * 1024  # bytes of one pickle
MOST_VALUES = 10_000  # a few bytes may stand for very many values, by references to references


@dataclass(frozen=True)
class Named:
    """The name of a class or function; it is not looked up."""

    module: str
    name: str


@dataclass(eq=False)
class Made:
    """An object, or a call that was not made: its class or function, its arguments, its state."""

    kind: Any
    arguments: Any
    state: Any = None

    @property
    def type_name(self) -> str:
        return self.kind.name if isinstance(self.kind, Named) else ""


def read_pickled(data: bytes) -> Any:
    """Return what was pickled as plain values, names and records; refuse what is not understood."""
    if len(data) > LONGEST:
        raise NotBrought("state_unreadable", problem=f"more than {LONGEST} bytes")
    try:
        return _Machine().run(data)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as problem:
        raise NotBrought("state_unreadable", problem=type(problem).__name__) from problem


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return self.stack.pop()
            if opcode.name in VALUES:
                self.stack.append(argument)
            else:
                STEPS[opcode.name](self, argument)
        raise ValueError("no end")

    def since_mark(self) -> list[Any]:
        """Return what was pushed since the last mark, and forget the mark."""
        found, self.stack = self.stack, self.marks.pop()
        return found

    def mark(self, _: Any) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def take(self, count: int) -> list[Any]:
        found = self.stack[len(self.stack) - count :]
        if len(found) != count:
            raise IndexError
        del self.stack[len(self.stack) - count :]
        return found

    def memoize(self, index: int | None) -> None:
        self.memo[len(self.memo) if index is None else index] = self.stack[-1]

    def append(self, _: Any) -> None:
        item = self.stack.pop()
        self.stack[-1].append(item)

    def extend(self, _: Any) -> None:
        items = self.since_mark()
        self.stack[-1].extend(items)

    def fill(self, items: list[Any]) -> None:
        """Put keys and values into the dictionary on the stack."""
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def global_(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.stack.append(Named(module, name))

    def make(self, _: Any) -> None:
        self.stack.append(Made(*self.take(2)))

    def build(self, _: Any) -> None:
        state = self.stack.pop()
        made = self.stack[-1]
        if not isinstance(made, Made):
            raise TypeError
        made.state = state


VALUES = {
    "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
}  # fmt: skip
STEPS: dict[str, Callable[[_Machine, Any], object]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "MARK": _Machine.mark,
    "NONE": lambda machine, _: machine.stack.append(None),
    "NEWTRUE": lambda machine, _: machine.stack.append(True),
    "NEWFALSE": lambda machine, _: machine.stack.append(False),
    "EMPTY_DICT": lambda machine, _: machine.stack.append({}),
    "EMPTY_LIST": lambda machine, _: machine.stack.append([]),
    "EMPTY_TUPLE": lambda machine, _: machine.stack.append(()),
    "TUPLE1": lambda machine, _: machine.stack.append(tuple(machine.take(1))),
    "TUPLE2": lambda machine, _: machine.stack.append(tuple(machine.take(2))),
    "TUPLE3": lambda machine, _: machine.stack.append(tuple(machine.take(3))),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.since_mark())),
    "APPEND": _Machine.append,
    "APPENDS": _Machine.extend,
    "SETITEM": lambda machine, _: machine.fill(machine.take(2)),
    "SETITEMS": lambda machine, _: machine.fill(machine.since_mark()),
    "MEMOIZE": _Machine.memoize,
    "BINPUT": _Machine.memoize,
    "LONG_BINPUT": _Machine.memoize,
    "BINGET": lambda machine, index: machine.stack.append(machine.memo[index]),
    "LONG_BINGET": lambda machine, index: machine.stack.append(machine.memo[index]),
    "GLOBAL": _Machine.global_,
    "STACK_GLOBAL": lambda machine, _: machine.stack.append(Named(*machine.take(2))),
    "NEWOBJ": _Machine.make,
    "REDUCE": _Machine.make,
    "BUILD": _Machine.build,
}


def as_json_value(value: Any, left: list[int] | None = None) -> Any:
    """Return a value that JSON knows; refuse records, and what unfolds to very many values."""
    left = [MOST_VALUES] if left is None else left
    left[0] -= 1
    if left[0] < 0:
        raise NotBrought("state_unreadable", problem=f"more than {MOST_VALUES} values")
    if isinstance(value, dict):
        return {str(key): as_json_value(each, left) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_value(each, left) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotBrought("arguments_not_json", problem=f"{getattr(value, 'type_name', '') or type(value).__name__}")
