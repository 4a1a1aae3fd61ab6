"""``dataclass`` for frozen values, with a constructor that is written when a class is first used.

The one of the standard library compiles six methods for each class while its module is imported, 0.8 ms a class on
Python 3.11: a third of what a worker took to start, for some 270 classes of which it uses a few dozen. Here five of
them are closures, and ``__init__`` waits for the first value. Type checkers see the one of the standard library, and
so does whatever asks for fields, parameters or signatures (docs/decisions/0145-values-written-at-first-use.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields, make_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, **options: Any) -> Any:
        """Make a class a dataclass; of a frozen one the methods cost nothing until they are used."""
        is_lazy = frozen and options.keys() <= {"slots", "kw_only"}

        def decorate(made: type) -> type:
            if not is_lazy or _is_frozen(made):
                return dataclasses.dataclass(made, frozen=frozen, **options)
            return _make_value(made, **options)

        return decorate if cls is None else decorate(cls)


class LazyInit:
    """Stands for the constructor of a class until its first use."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __get__(self, instance: object, owner: type) -> Any:
        init = _write_init(self._value)
        self._value.__init__ = init
        return init.__get__(instance, owner)


def _is_frozen(cls: type) -> bool:
    """Say whether a base is frozen already: the standard library lets nothing but a frozen class follow it."""
    return any("__dataclass_fields__" in base.__dict__ for base in cls.__mro__[1:])


def _make_value(cls: type, *, slots: bool = False, kw_only: bool = False) -> Any:
    own = dict(cls.__dict__)
    cls.__doc__ = cls.__doc__ or cls.__name__  # else it would be made from the signature, slowly
    made: Any = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    params = made.__dataclass_params__
    params.init = params.repr = params.eq = params.frozen = True
    known = fields(made)
    read = _reader(each.name for each in known if each.compare)
    methods: dict[str, Any] = {
        "__init__": LazyInit(made),
        "__repr__": _repr,
        "__eq__": _make_eq(read),
        "__hash__": _make_hash(_reader(e.name for e in known if (e.compare if e.hash is None else e.hash))),
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
    }
    if slots:
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    for name, method in methods.items():
        if own.get(name) is None:  # also where __eq__ of its own has set __hash__ to None
            setattr(made, name, method)
    return made


def _reader(names: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads these attributes of a value as a tuple."""
    known = tuple(names)
    if len(known) > 1:
        return attrgetter(*known)
    return lambda value: tuple(getattr(value, name) for name in known)


def _make_eq(read: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        return read(self) == read(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _make_hash(read: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(read(self))

    return __hash__


def _repr(self: Any) -> str:
    arguments = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({arguments})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    _refuse(self, name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(self: Any, name: str, what: str) -> None:
    """Refuse all but the further attributes of a plain class that follows a value."""
    if "__dataclass_fields__" in type(self).__dict__ or name in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot {what} field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


def _write_init(cls: Any) -> Any:
    """Let the standard library write the constructor of a class with the same fields."""
    namespace = {"__doc__": cls.__doc__} | ({"__post_init__": None} if hasattr(cls, "__post_init__") else {})
    twin: Any = make_dataclass(
        cls.__name__,
        [(each.name, each.type, _copy_field(each)) for each in fields(cls)],
        namespace=namespace,
        repr=False,
        eq=False,
        match_args=False,
        frozen=True,
        slots="__slots__" in cls.__dict__,
    )
    init = twin.__init__
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


def _copy_field(known: Field[Any]) -> Any:
    return field(init=known.init, kw_only=known.kw_only is True, **default_of(known))


def default_of(known: Field[Any]) -> dict[str, Any]:
    """Return the default of a field as arguments for a field of another class."""
    has_factory = known.default_factory is not MISSING
    return {"default_factory": known.default_factory} if has_factory else {"default": known.default}
