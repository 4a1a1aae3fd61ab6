"""Parameters of a handler, as a form needs them; stored with its definition for servers that lack the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import encode
from horae.core.values import PYDANTIC
from horae.errors import HoraeError, InvalidInput

# How a value is entered: "extra" stands for any further names, "json" for everything without a kind of its own.
ParameterKind = Literal["text", "integer", "number", "boolean", "date", "instant", "choice", "json", "extra"]
KINDS: tuple[str, ...] = get_args(ParameterKind)
MOST = 100  # parameters of a handler, and choices of a parameter
LONGEST_DEFAULT = 2000  # as JSON
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a handler: its kind, whether it must be given, its default, and what may be chosen."""

    __pydantic_config__ = PYDANTIC

    name: str
    kind: ParameterKind = "json"
    required: bool = True
    default: Any = None
    choices: tuple[Any, ...] = ()
    nullable: bool = False  # null is a value
    sensitive: bool = False  # its value is masked for readers, and so is its default


def parameter_json(parameter: Parameter) -> dict[str, Any]:
    """Return a parameter as it is stored: without what is the default."""
    plain = Parameter(parameter.name)
    values = {name: getattr(parameter, name) for name in Parameter.__slots__}
    kept = {name: value for name, value in values.items() if name == "name" or value != getattr(plain, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


def parameter_from(raw: Mapping[str, Any]) -> Parameter:
    """Read a parameter; refuse what no form could show."""
    name, kind, choices = raw.get("name"), raw.get("kind", "json"), raw.get("choices", ())
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidInput("parameter_without_name")
    if kind not in KINDS:
        raise InvalidInput("choice_unknown", name=f"kind of {name}", value=str(kind), choices=list(KINDS))
    if not isinstance(choices, list | tuple) or len(choices) > MOST or not all(map(_is_plain, choices)):
        raise InvalidInput("parameter_choices_unreadable", parameter=name, most=MOST)
    default = raw.get("default")
    if not is_small(default):
        raise InvalidInput("parameter_default_too_large", parameter=name, most=LONGEST_DEFAULT)
    flags = {flag: bool(raw.get(flag, flag == "required")) for flag in ("required", "nullable", "sensitive")}
    if flags["sensitive"]:
        default = None
    return Parameter(name, cast("ParameterKind", kind), default=default, choices=tuple(choices), **flags)


def is_small(default: Any) -> bool:
    """Return whether a default can be stored and shown."""
    try:
        encode(default, "default", LONGEST_DEFAULT)
    except HoraeError:
        return False
    return True


def _is_plain(choice: Any) -> bool:
    return isinstance(choice, str | int | float) and len(str(choice)) <= LONGEST_NAME
