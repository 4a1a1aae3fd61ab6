"""An operator's settings for one tenant: the networks that it may call, its quotas, its share of fair queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.jobs.turns import MAX_WEIGHT
from horae.core.outgoing.addresses import allow_list
from horae.core.outgoing.targets import DEFAULT_PORTS, Rules
from horae.errors import InvalidInput

MOST_NETWORKS, MOST_PORTS = 100, 100
MOST_TASKS = 1_000_000
DEFAULT = Rules()


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """One tenant's settings; those left out are the service's defaults."""

    allow_networks: tuple[str, ...] = ()  # private networks that its webhooks may reach
    allow_http: bool = False
    ports: tuple[int, ...] = ()  # instead of 443 and 8443, and 80 where http is allowed
    max_enabled_tasks: int | None = None  # 0: no limit; None: the default of the service
    weight: int = 1  # its share of queues in which owners take turns, beside those of the others

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> OwnerSettings:
        """Read and check settings from JSON; ignore unknown keys."""
        return cls(
            allow_networks=_networks(stored.get("allow_networks")),
            allow_http=_flag(stored.get("allow_http")),
            ports=_ports(stored.get("ports")),
            max_enabled_tasks=_count(stored.get("max_enabled_tasks")),
            weight=_weight(stored.get("weight", 1)),
        )

    def merge_into(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON to store: these settings in place of earlier ones, beside whatever else is kept there."""
        settings: dict[str, Any] = {
            "allow_networks": list(self.allow_networks),
            "allow_http": self.allow_http,
            "ports": list(self.ports),
        }
        if self.max_enabled_tasks is not None:
            settings["max_enabled_tasks"] = self.max_enabled_tasks
        if self.weight != 1:
            settings["weight"] = self.weight
        return {key: value for key, value in stored.items() if key not in ("max_enabled_tasks", "weight")} | settings

    @property
    def rules(self) -> Rules:
        """The rules for the tenant's outgoing calls."""
        schemes = DEFAULT.schemes | ({"http"} if self.allow_http else frozenset())
        ports = frozenset(self.ports) or DEFAULT.ports | ({DEFAULT_PORTS["http"]} if self.allow_http else frozenset())
        return Rules(schemes, ports, allow_list(self.allow_networks))


def _networks(given: Any) -> tuple[str, ...]:
    texts = _check_list(given, str, MOST_NETWORKS, 'allow_networks is a list such as ["10.1.0.0/16"]')
    return tuple(dict.fromkeys(str(network) for network in allow_list(texts)))


def _ports(given: Any) -> tuple[int, ...]:
    numbers = _check_list(given, int, MOST_PORTS, "ports is a list such as [443, 8080]")
    if any(not 0 < number < 65536 for number in numbers):
        raise InvalidInput("ports_outside")
    return tuple(sorted(set(numbers)))


def _check_list(given: Any, kind: type, most: int, expected: str) -> Sequence[Any]:
    fits = given is None or (isinstance(given, list | tuple) and all(type(each) is kind for each in given))
    if not fits or len(given or ()) > most:
        raise InvalidInput("owner_list_unreadable", expected=expected, most=most)
    return given or ()


def _flag(given: Any) -> bool:
    if given is not None and not isinstance(given, bool):
        raise InvalidInput("allow_http_unreadable")
    return bool(given)


def _weight(given: Any) -> int:
    if type(given) is not int or not 1 <= given <= MAX_WEIGHT:
        raise InvalidInput("weight_outside", most=MAX_WEIGHT)
    return given


def _count(given: Any) -> int | None:
    if given is not None and (type(given) is not int or not 0 <= given <= MOST_TASKS):
        raise InvalidInput("max_enabled_tasks_outside", most=MOST_TASKS)
    return given
