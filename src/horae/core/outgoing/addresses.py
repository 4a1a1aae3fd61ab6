"""Which addresses an outgoing call may reach: only those that belong to the public internet, or to an allowed network.

The test does not ask the standard library, whose answers differ between Python releases (3.11 calls the loopback
address behind a NAT64 prefix global). The special blocks are written down here from the IANA registries. An IPv6
address that carries an IPv4 address inside is tested twice: as what it is, and as what it leads to.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from horae.core.dataclass import dataclass
from horae.errors import AddressRefused

V4_BITS, V6_BITS = 32, 128
LONGEST_HOST = 253  # RFC 1035
WIDEST = {V4_BITS: 8, V6_BITS: 7}  # an allow-list names networks; one wider than these would be an off switch
_OCTET = re.compile(r"0|[1-9][0-9]{0,2}")
_GROUP = re.compile(r"[0-9a-fA-F]{1,4}")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Address:
    """An IPv4 or IPv6 address as a number."""

    number: int
    bits: int

    @classmethod
    def read(cls, text: str) -> Address:
        """Read an address in its one plain spelling: no octal, no hex, no short forms, no scopes."""
        number = _v6(text) if ":" in text else _v4(text)
        if number is None:
            raise AddressRefused("address_unreadable", text=text[:60])
        return cls(number, V6_BITS if ":" in text else V4_BITS)

    @classmethod
    def v4(cls, number: int) -> Address:
        return cls(number & 0xFFFF_FFFF, V4_BITS)

    def __str__(self) -> str:
        if self.bits == V4_BITS:
            return ".".join(str(self.number >> shift & 0xFF) for shift in (24, 16, 8, 0))
        return _compress([self.number >> shift & 0xFFFF for shift in range(112, -1, -16)])


@dataclass(frozen=True, slots=True)
class Network:
    """All addresses that begin with the same bits."""

    base: Address
    prefix: int

    @classmethod
    def read(cls, text: str) -> Network:
        """Read ``10.0.0.0/8``; an address alone is a network of one."""
        address, slash, length = text.strip().partition("/")
        base = Address.read(address)
        if slash and not (length.isascii() and length.isdigit() and len(length) < 4 and int(length) <= base.bits):
            raise AddressRefused("network_unreadable", text=text[:60])
        network = cls(base, int(length) if slash else base.bits)
        if base.number & (1 << (base.bits - network.prefix)) - 1:
            raise AddressRefused("network_has_host_bits", text=text[:60])
        return network

    def __contains__(self, address: Address) -> bool:
        shift = self.base.bits - self.prefix
        return address.bits == self.base.bits and address.number >> shift == self.base.number >> shift

    @property
    def is_single(self) -> bool:
        return self.prefix == self.base.bits

    def __str__(self) -> str:
        return f"{self.base}/{self.prefix}"


def _v4(text: str) -> int | None:
    octets = text.split(".")
    if len(octets) != 4 or not all(_OCTET.fullmatch(octet) and int(octet) < 256 for octet in octets):
        return None
    return int.from_bytes(bytes(map(int, octets)), "big")


def _v6(text: str) -> int | None:
    if "." in text:  # ::ffff:192.0.2.7
        head, _, tail = text.rpartition(":")
        inner = _v4(tail)
        if inner is None:
            return None
        text = f"{head}:{inner >> 16:x}:{inner & 0xFFFF:x}"
    left, gap, right = text.partition("::")
    before, after = (side.split(":") if side else [] for side in (left, right))
    missing = 8 - len(before) - len(after)
    if not all(_GROUP.fullmatch(group) for group in (*before, *after)) or (missing < 1 if gap else missing != 0):
        return None
    groups = [*before, *["0"] * missing, *after]
    return int("".join(group.zfill(4) for group in groups), 16)


def _compress(groups: list[int]) -> str:
    """Compress as RFC 5952 says: the longest run of two or more zero groups, the first of equals, becomes ``::``."""
    text = ":".join(f"{group:x}" for group in groups)
    runs = sorted(re.finditer(r"(?<![0-9a-f])0(?::0)+(?![0-9a-f])", text), key=lambda run: -len(run[0]))
    if not runs:
        return text
    return f"{text[: runs[0].start()].removesuffix(':')}::{text[runs[0].end() :].removeprefix(':')}"


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(Network.read(text) for text in texts)


METADATA = _networks("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")

# IANA IPv4 and IPv6 special-purpose registries, multicast and reserved space; what is globally reachable is left out.
SPECIAL = _networks(
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4",
    "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)  # fmt: skip
# All other IPv6 space is unassigned, local or multicast.
GLOBAL_V6 = _networks("2000::/3", "64:ff9b::/96")

MAPPED, COMPATIBLE, SIX_TO_FOUR, TEREDO, NAT64, NAT64_LOCAL = _networks(
    "::ffff:0:0/96", "::/96", "2002::/16", "2001::/32", "64:ff9b::/96", "64:ff9b:1::/48"
)


def faces(address: Address) -> Iterator[Address]:
    """Return the address, and every address that it leads to by way of a translator or a tunnel."""
    yield address
    number = address.number
    if address in MAPPED or address in COMPATIBLE or address in NAT64:
        yield Address.v4(number)
    elif address in SIX_TO_FOUR:
        yield Address.v4(number >> 80)
    elif address in TEREDO:
        yield Address.v4(number >> 64)  # the server
        yield Address.v4(~number)  # the client, stored inverted
    elif address in NAT64_LOCAL:
        short_form = number & (1 << 40) - 1 == 0  # RFC 6052: behind a /48 the address lies around bits 64 to 71
        yield Address.v4((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF) if short_form else Address.v4(number)


def is_public(address: Address) -> bool:
    """Return whether the address itself, whatever it may lead to, belongs to the public internet."""
    if any(address in network for network in (*SPECIAL, *METADATA)):
        return False
    return address.bits == V4_BITS or any(address in network for network in GLOBAL_V6)


def refusal(address: Address, allowed: Iterable[Network] = ()) -> str | None:
    """Return why this address must not be called, or None if it may.

    *allowed* networks are exempt; metadata services only when the allow-list names exactly their address.
    """
    networks = tuple(allowed)
    for face in faces(address):
        exempt = [network for network in networks if face in network]
        through = "" if face is address else f", which leads to {face}"
        if any(face in network for network in METADATA) and not any(network.is_single for network in exempt):
            return f"{address}{through} is a metadata service"
        if not exempt and not is_public(face):
            return f"{address}{through} is not a public address"
    return None


def allow_list(texts: Iterable[str]) -> tuple[Network, ...]:
    """Read the networks of an allow-list; refuse one so wide that it would switch the check off."""
    networks = _networks(*texts)
    for network in networks:
        if network.prefix < WIDEST[network.base.bits]:
            raise AddressRefused("network_too_wide", network=str(network))
    return networks


def host_of(text: str) -> str | Address:
    """Return the host that a text names: a lower-case name, or an address. Numbers in disguise are refused.

    Resolvers take ``2130706433``, ``0x7f.1`` and ``017700000001`` for 127.0.0.1, so a name that ends in a number must
    be a plain address. Full-width digits and dots become ordinary ones first; one dot at the end is dropped.
    """
    plain = unicodedata.normalize("NFKC", text).lower().removesuffix(".")
    if plain.startswith("[") and plain.endswith("]"):
        address = Address.read(plain[1:-1])
        if address.bits == V6_BITS:
            return address
    labels = plain.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return Address.read(plain)
    if len(plain) > LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise AddressRefused("host_unreadable", text=text[:60])
    return plain
