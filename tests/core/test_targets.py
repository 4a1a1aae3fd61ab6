"""What a URL must be like to be called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.outgoing.addresses import allow_list
from horae.core.outgoing.targets import LONGEST_URL, OPERATOR, Rules, target_of
from horae.errors import AddressRefused

TENANT = Rules()


def allowed(url: str, rules: Rules = TENANT) -> bool:
    try:
        rules.check(target_of(url))
    except AddressRefused:
        return False
    return True


@pytest.mark.parametrize(
    "url",
    ["https://example.com", "https://example.com/hook?a=1&b=%20", "https://EXAMPLE.com.:443/x", "https://8.8.8.8/",
     "https://example.com:8443/~a", "https://[2606:4700::1111]/x", "HTTPS://example.com?q"],
)  # fmt: skip
def test_an_ordinary_target_is_accepted(url: str) -> None:
    assert allowed(url)


@pytest.mark.parametrize(
    "url",
    ["http://example.com/", "ftp://example.com/", "file:///etc/passwd", "https:example.com", "//example.com", "",
     "https://user@example.com/", "https://user:pw@example.com/", "https://example.com@127.0.0.1/", "https:///x",
     "https://example.com:22/", "https://example.com:0/", "https://example.com:99999/", "https://example.com:/x",
     "https://example.com:4 43/", "https://exam ple.com/", "https://example.com/a b", "https://example.com/\r\nx: y",
     "https://example.com\\@127.0.0.1/", "https://example.com/\\x", "https://example.com/ü", "https://a.com/#part",
     "gopher://example.com/", "javascript:alert(1)", " https://example.com/", "https://example.com/\x00",
     "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest", "https://2130706433/",
     "https://[::ffff:7f00:1]/", "https://[64:ff9b::7f00:1]/", "https://100.64.0.1/", "https://１２７.０.０.１/",
     "https://0x7f.1/", "https://017700000001/", "https://127.0.0.1./", "https://[::1%25lo]/"],
)  # fmt: skip
def test_a_target_that_could_lead_elsewhere_is_refused_before_any_connection_e6_6(url: str) -> None:
    assert not allowed(url)


def test_a_url_has_a_greatest_length() -> None:
    assert allowed("https://example.com/".ljust(LONGEST_URL, "x"))
    assert not allowed("https://example.com/".ljust(LONGEST_URL + 1, "x"))


def test_plain_http_and_other_ports_are_for_those_who_are_told_they_may() -> None:
    rules = Rules(schemes=frozenset({"http", "https"}), ports=frozenset({80, 443}))

    assert allowed("http://example.com/", rules)
    assert not allowed("http://example.com:81/", rules)


def test_the_operators_own_address_may_be_private() -> None:
    assert allowed("http://10.0.0.5:9000/base", OPERATOR)


def test_an_allow_list_opens_its_networks_to_one_tenant() -> None:
    rules = Rules(networks=allow_list(["10.0.0.0/8"]))

    assert allowed("https://10.0.0.5/", rules)
    assert not allowed("https://10.0.0.5/", TENANT)


def test_a_target_is_shown_without_its_path_and_query() -> None:
    target = target_of("https://example.com/CANARY?key=CANARY")

    assert str(target) == "https://example.com:443"
    assert "CANARY" not in repr(target)
    assert target.url == "https://example.com:443/CANARY?key=CANARY"


def test_a_path_is_appended_to_the_one_of_the_base() -> None:
    assert target_of("http://10.0.0.5:9000/base/").with_path("/dispatch/execute").path == "/base/dispatch/execute"


@given(st.text(max_size=60).map(lambda tail: "https://" + tail) | st.text(max_size=40))
def test_a_url_is_read_or_refused_and_nothing_else(url: str) -> None:
    try:
        target = target_of(url)
    except AddressRefused:
        return
    assert target.url.isascii()
    assert target_of(target.url) == target
