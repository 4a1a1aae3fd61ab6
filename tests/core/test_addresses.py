"""Which addresses may be called: the table of e3, the checks e6-6, and the standard library as a second opinion."""

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from horae.core.outgoing.addresses import Address, Network, allow_list, faces, host_of, is_public, refusal
from horae.errors import AddressRefused

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "64:ff9b::808:808", "192.31.196.1", "2001:4860:4860::8888"]
REFUSED = [
    "127.0.0.1", "::1", "0.0.0.0", "::", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "169.254.0.1",
    "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.1", "192.0.0.192", "192.0.2.1", "198.18.0.1",
    "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:8.8.8.8", "::127.0.0.1", "2002:7f00:1::", "2002:a00:1::1",
    "2001:0:7f00:1::", "2001:0:808:808:0:0:80ff:fffe", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "64:ff9b::a83f:8110", "64:ff9b:1::7f00:1", "64:ff9b:1:7f00:0:100::", "64:ff9b:1::808:808", "fe80::1", "fc00::1",
    "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1", "3fff::1", "100::1", "5f00::1", "4000::1",
]  # fmt: skip

v4 = st.integers(0, 2**32 - 1)
v6 = st.one_of(
    st.integers(0, 2**128 - 1),
    st.integers(0x2000 << 112, (0x4000 << 112) - 1),
    st.builds(lambda head, tail: (head << 112) | tail, st.integers(0, 0xFFFF), v4),
)


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_may_be_called(text: str) -> None:
    assert refusal(Address.read(text)) is None


@pytest.mark.parametrize("text", REFUSED)
def test_an_address_that_is_not_public_is_refused_e6_6(text: str) -> None:
    assert refusal(Address.read(text)) is not None


@given(v4)
@example(0xA83F8110)
def test_nothing_that_the_standard_library_calls_local_is_called(number: int) -> None:
    other = ipaddress.IPv4Address(number)
    if not other.is_global or other.is_multicast or other.is_reserved or other.is_unspecified:
        assert refusal(Address(number, 32)) is not None


@given(v6)
def test_nor_among_the_long_addresses(number: int) -> None:
    other = ipaddress.IPv6Address(number)
    if not other.is_global or other.is_multicast or (other.is_reserved and other not in NAT64):
        assert refusal(Address(number, 128)) is not None


NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
WRAPPINGS = {
    "mapped": lambda inner: 0xFFFF << 32 | inner,
    "compatible": lambda inner: inner,
    "6to4": lambda inner: 0x2002 << 112 | inner << 80,
    "teredo server": lambda inner: 0x2001 << 112 | inner << 64,
    "teredo client": lambda inner: 0x2001 << 112 | 0x08080808 << 64 | inner ^ 0xFFFFFFFF,
    "nat64": lambda inner: 0x64FF9B << 96 | inner,
    "nat64 of a site": lambda inner: 0x64FF9B0001 << 80 | 1 << 39 | inner,
}


@pytest.mark.parametrize("kind", WRAPPINGS)
@given(inner=v4)
def test_an_address_is_as_local_as_the_one_inside_it(kind: str, inner: int) -> None:
    wrapped = Address(WRAPPINGS[kind](inner), 128)

    assert Address(inner, 32) in faces(wrapped)
    if not is_public(Address(inner, 32)):
        assert refusal(wrapped) is not None


@given(st.one_of(v4.map(lambda n: Address(n, 32)), v6.map(lambda n: Address(n, 128))))
def test_an_address_is_read_and_shown_as_the_standard_library_does(address: Address) -> None:
    other = ipaddress.IPv4Address(address.number) if address.bits == 32 else ipaddress.IPv6Address(address.number)

    assert Address.read(str(other)) == address
    assert Address.read(other.exploded) == address
    assert ipaddress.ip_address(str(address)) == other


@given(st.text(alphabet="0123456789abcdefx:.", max_size=24))
@example("1::2::3")
@example(":1:2:3:4:5:6:7:8")
@example("1:2:3:4:5:6:7::")
def test_what_the_standard_library_cannot_read_is_no_address(text: str) -> None:
    try:
        other: ipaddress.IPv4Address | ipaddress.IPv6Address | None = ipaddress.ip_address(text)
    except ValueError:
        other = None
    if other is None:
        with pytest.raises(AddressRefused):
            Address.read(text)
    else:
        assert Address.read(text).number == int(other)


@pytest.mark.parametrize(
    "text",
    ["2130706433", "0x7f.1", "0x7f000001", "017700000001", "127.1", "127.0.1", "0177.0.0.1", "0x", "1.2.3.4.5",
     "２１３０７０６４３３", "１２７.１", "127.0.0.256", "example.123", "0x7F.1", "2130706433.", "127.0.0.1.."],
)  # fmt: skip
def test_a_number_in_disguise_is_refused_e6_6(text: str) -> None:
    with pytest.raises(AddressRefused):
        host_of(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [("１２７.０.０.１", "127.0.0.1"), ("127．0．0．1", "127.0.0.1"), ("127.0.0.1.", "127.0.0.1"),
     ("[::FFFF:7f00:1]", "::ffff:7f00:1"), ("①②⑦.0.0.1", "127.0.0.1")],
)  # fmt: skip
def test_another_spelling_of_an_address_is_that_address(text: str, address: str) -> None:
    assert host_of(text) == Address.read(address)


@pytest.mark.parametrize(
    "text",
    ["", ".", "a..b", "-a.com", "a b", "bücher.de", "a%00.com", "x" * 64, "[fe80::1%25eth0]", "[127.0.0.1]", "a.com..",
     "[::1", "::1", "a/b", "a\n", "127。0。0。1"],
)  # fmt: skip
def test_a_text_that_names_no_host_is_refused(text: str) -> None:
    with pytest.raises(AddressRefused):
        host_of(text)


@pytest.mark.parametrize(("text", "host"), [("Example.COM.", "example.com"), ("a_b.example", "a_b.example"),
                                            ("ｅxample.com", "example.com"), ("0x.example", "0x.example")])  # fmt: skip
def test_a_name_is_kept_in_lower_case(text: str, host: str) -> None:
    assert host_of(text) == host


def test_an_allowed_network_may_be_called_and_its_neighbour_not() -> None:
    allowed = allow_list(["10.0.0.0/8", "fd12::/16"])

    assert refusal(Address.read("10.9.8.7"), allowed) is None
    assert refusal(Address.read("fd12::1"), allowed) is None
    assert refusal(Address.read("11.0.0.1"), allowed) is None
    assert refusal(Address.read("172.16.0.1"), allowed) is not None
    assert refusal(Address.read("fd13::1"), allowed) is not None


def test_a_metadata_service_inside_an_allowed_network_stays_refused_until_named_itself() -> None:
    metadata = Address.read("169.254.169.254")

    assert refusal(metadata, allow_list(["169.254.0.0/16"])) is not None
    assert refusal(metadata, allow_list(["169.254.169.254"])) is None


@pytest.mark.parametrize(
    "text", ["0.0.0.0/0", "::/0", "0.0.0.0/1", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/x", "ten", ""]
)
def test_an_allow_list_cannot_switch_the_test_off_or_be_vague(text: str) -> None:
    with pytest.raises(AddressRefused):
        allow_list([text])


def test_a_network_is_shown_as_it_was_written() -> None:
    assert str(Network.read("fd00::/8")) == "fd00::/8"
    assert str(Network.read("10.0.0.1")) == "10.0.0.1/32"
