"""Where an outgoing call goes: one strict reading of a URL, and the rules it must keep.

Parsers that disagree about a URL are how address checks are tricked, so whatever two parsers could read differently
is refused: userinfo, backslashes, spaces, control characters, anything beyond ASCII outside the host.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import field

from horae.core.dataclass import dataclass
from horae.core.outgoing.addresses import V6_BITS, Address, Network, host_of, refusal
from horae.errors import AddressRefused

LONGEST_URL = 2048
DEFAULT_PORTS = {"https": 443, "http": 80}
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?")
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_VISIBLE = re.compile(r"[\x21-\x7e]*")
_UNCLEAR = set('\\<>"^`{|}')


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a call. Its text has no path and no query: they may hold secrets, and errors are shown."""

    scheme: str
    host: str | Address
    port: int
    path: str = field(default="/", repr=False)

    @property
    def host_text(self) -> str:
        """The host as a resolver, a certificate and a header know it; an IPv6 address without its brackets."""
        return str(self.host)

    @property
    def origin(self) -> str:
        brackets = isinstance(self.host, Address) and self.host.bits == V6_BITS
        return f"{self.scheme}://{f'[{self.host}]' if brackets else self.host}:{self.port}"

    @property
    def url(self) -> str:
        return self.origin + self.path

    def __str__(self) -> str:
        return self.origin

    def with_path(self, path: str) -> Target:
        """Return this target with a path appended to its own."""
        return Target(self.scheme, self.host, self.port, self.path.partition("?")[0].rstrip("/") + path)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a caller may reach. An operator's own setting is ``trusted``; whatever a tenant names is not."""

    schemes: Set[str] = frozenset({"https"})
    ports: Set[int] = frozenset({443, 8443})
    networks: tuple[Network, ...] = ()
    trusted: bool = False

    def check(self, target: Target) -> None:
        """Refuse a target by what its text says; its address is checked again when it is connected to."""
        if target.scheme not in self.schemes and not self.trusted:
            raise AddressRefused("scheme_refused", target=str(target), allowed=sorted(self.schemes))
        if target.port not in self.ports and not self.trusted:
            raise AddressRefused("port_refused", target=str(target), port=target.port, allowed=sorted(self.ports))
        if isinstance(target.host, Address):
            self.check_address(target.host)

    def check_address(self, address: Address) -> None:
        reason = None if self.trusted else refusal(address, self.networks)
        if reason is not None:
            raise AddressRefused("address_not_public", problem=reason)


OPERATOR = Rules(trusted=True)


def target_of(url: str) -> Target:
    """Return the target of a URL, or refuse it; the error never repeats the URL, which may hold secrets."""
    if not isinstance(url, str) or len(url) > LONGEST_URL:
        raise AddressRefused("url_too_long", most=LONGEST_URL)
    parts = _URL.fullmatch(url)
    if parts is None or parts["scheme"].lower() not in DEFAULT_PORTS:
        raise AddressRefused("url_unreadable")
    path = (parts["path"] or "/") + (parts["query"] or "")
    if not _VISIBLE.fullmatch(path) or _UNCLEAR & set(path):
        raise AddressRefused("url_characters_refused")
    if "@" in parts["authority"]:
        raise AddressRefused("url_has_credentials")
    authority = _AUTHORITY.fullmatch(parts["authority"])
    if authority is None or not authority["host"]:
        raise AddressRefused("url_without_host")
    scheme = parts["scheme"].lower()
    port = int(authority["port"]) if authority["port"] else DEFAULT_PORTS[scheme]
    if not 0 < port < 65536:
        raise AddressRefused("port_outside", port=port)
    return Target(scheme, host_of(authority["host"]), port, path)
