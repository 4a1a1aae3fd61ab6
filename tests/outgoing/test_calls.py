"""One outgoing call against real servers on loopback: the checks e6-6, e6-7 and e6-8."""

import asyncio
import gzip
import logging
import socket
import ssl
import traceback
import tracemalloc
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.outgoing.addresses import allow_list
from horae.core.outgoing.targets import OPERATOR, Rules, target_of
from horae.errors import AddressRefused, CallFailed
from horae.outgoing import Calls, Limits
from horae.outgoing.transport import CheckedTransport
from tests.outgoing.authority import certificates
from tests.outgoing.ground import (
    CANARY,
    LOOPBACK,
    Names,
    WatchedLine,
    answering,
    dripping,
    dripping_headers,
    endless,
    huge_headers,
    serving,
)
from tests.support.refusals import refused

SOON = Limits(total=0.4)
PUBLIC = "93.184.216.34"


async def test_a_call_brings_status_and_body() -> None:
    async with serving(answering(201, b'{"ok":true}')) as server:
        answer = await Calls().post(server.target(), b'{"a":1}', {"x-a": "1"}, server.rules)

    assert (answer.status, answer.text, answer.cut) == (201, '{"ok":true}', False)
    (request,) = server.received
    assert request.line == "POST /hook HTTP/1.1"
    assert request.body == b'{"a":1}'
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-a"] == "1"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "169.254.169.254", "2130706433", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "100.64.0.1",
     "１２７.０.０.１", "0x7f.1", "017700000001", "localhost.example"],
)  # fmt: skip
async def test_a_tenants_target_that_is_not_public_is_refused_before_any_connection_e6_6(host: str) -> None:
    line = WatchedLine()
    calls = Calls(resolve=Names(localhost_example=[["127.0.0.1"]]), dial=line)

    with pytest.raises(AddressRefused):
        await calls.post(target_of(f"https://{host}/"), b"", {}, Rules())
    assert line.dialled == []


async def test_a_name_is_resolved_once_and_the_checked_address_is_dialled_e6_7() -> None:
    line, names = WatchedLine(), Names(rebinding_example=[[PUBLIC], ["127.0.0.1"]])

    with pytest.raises(CallFailed):
        await Calls(resolve=names, dial=line).post(target_of("https://rebinding.example/"), b"", {}, Rules())
    assert (line.dialled, names.asked) == ([PUBLIC], ["rebinding.example"])


async def test_a_name_that_turns_to_loopback_is_refused_the_second_time_e6_7() -> None:
    line = WatchedLine()
    calls = Calls(resolve=Names(rebinding_example=[[PUBLIC], ["127.0.0.1"]]), dial=line)
    target = target_of("https://rebinding.example/")

    with pytest.raises(CallFailed):
        await calls.post(target, b"", {}, Rules())
    with pytest.raises(AddressRefused):
        await calls.post(target, b"", {}, Rules())
    assert line.dialled == [PUBLIC]


@pytest.mark.parametrize("bad", ["127.0.0.1", "::1", "fe80::1%eth0", "64:ff9b::7f00:1", "not an address"])
async def test_one_bad_answer_among_good_ones_spoils_the_name_e6_7(bad: str) -> None:
    line = WatchedLine()
    calls = Calls(resolve=Names(mixed_example=[[PUBLIC, bad]]), dial=line)

    with pytest.raises(AddressRefused):
        await calls.post(target_of("https://mixed.example/"), b"", {}, Rules())
    assert line.dialled == []


@pytest.mark.parametrize("inside", ["10.20.30.40", "fd00:1234::5", "fe80::1%eth0", "not an address"])
async def test_where_a_name_leads_inside_is_told_to_the_operator_alone(
    inside: str, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls(resolve=Names(inner_example=[[inside]]), dial=WatchedLine())

    with refused(AddressRefused, "name_not_public") as refusal:
        await calls.post(target_of("https://inner.example/"), b"", {}, Rules())

    assert inside not in "".join(traceback.format_exception(refusal.value))
    assert inside in caplog.text


async def test_a_connection_that_fails_does_not_tell_where_the_name_leads() -> None:
    """Also in a network that an operator allows: the tenant knows its name, and not the plan of the house."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    rules = Rules(frozenset({"http"}), frozenset({port}), allow_list(["127.0.0.0/8"]))

    with refused(CallFailed, "not_connected") as failed:
        await Calls(resolve=Names(inner_example=[["127.0.0.1"]])).post(
            target_of(f"http://inner.example:{port}/"), b"", {}, rules
        )

    assert "127.0.0.1" not in str(failed.value)


async def test_every_checked_address_is_tried_before_the_target_counts_as_unreachable() -> None:
    line = WatchedLine()
    calls = Calls(resolve=Names(many_example=[[PUBLIC, "8.8.8.8"]]), dial=line)

    with refused(CallFailed, "not_connected"):
        await calls.post(target_of("https://many.example/"), b"", {}, Rules())
    assert line.dialled == [PUBLIC, "8.8.8.8"]


async def test_a_name_without_addresses_is_a_failure_that_may_pass() -> None:
    with refused(CallFailed, "not_connected") as failed:
        await Calls(resolve=Names()).post(target_of("https://nowhere.example/"), b"", {}, Rules())
    assert "no address" in str(failed.value.facts["problem"])


async def test_the_hosts_own_resolver_is_believed_no_more_than_any_other_e6_7() -> None:
    async with serving(answering(200)) as server:
        target, strict = server.target("localhost"), Rules(frozenset({"http"}), frozenset({server.port}))
        with pytest.raises(AddressRefused):
            await Calls().post(target, b"", {}, strict)
        assert server.received == []

        assert (await Calls().post(target, b"", {}, OPERATOR)).status == 200


async def test_a_resolver_that_never_answers_is_waited_for_as_long_as_a_connection() -> None:
    async def silent(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    with refused(CallFailed, "connect_too_slow", seconds=0.05):
        await Calls(resolve=silent).post(target_of("https://slow.example/"), b"", {}, Rules(), Limits(connect=0.05))


async def test_a_redirect_is_not_followed_and_credentials_go_nowhere_e6_7_e6_8() -> None:
    async with serving(answering(200)) as inner, serving(answering(307, location=inner.url)) as outer:
        answer = await Calls().post(outer.target(), b"{}", {"x-key": CANARY}, outer.rules)

    assert answer.status == 307
    assert inner.received == []


@pytest.mark.parametrize("respond", [dripping, dripping_headers])
async def test_a_target_that_drips_is_cut_off_when_its_time_is_up_e6_8(respond: object) -> None:
    async with serving(respond) as server:  # type: ignore[arg-type]
        with refused(CallFailed, "answer_too_slow", seconds=0.4):
            await Calls().post(server.target(), b"", {}, server.rules, SOON)


async def test_of_a_gibibyte_only_the_beginning_is_fetched_and_kept_e6_8() -> None:
    async with serving(endless) as server:
        tracemalloc.start()
        answer = await Calls().post(server.target(), b"", {}, server.rules)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert (len(answer.body), answer.cut) == (65536, True)
    assert answer.text.endswith("(cut)")
    assert peak < 8 * 2**20


async def test_a_compressed_answer_is_not_unpacked_e6_8() -> None:
    bomb = gzip.compress(b"0" * 20 * 2**20)
    async with serving(answering(200, bomb, content_encoding="gzip")) as server:
        answer = await Calls().post(server.target(), b"", {}, server.rules)

    assert answer.is_encoded
    assert len(answer.body) <= 65536
    assert "not unpacked" in answer.text


async def test_headers_without_end_are_a_failure_e6_8() -> None:
    async with serving(huge_headers) as server:
        with refused(CallFailed, "answer_not_http"):
            await Calls().post(server.target(), b"", {}, server.rules)


@pytest.mark.parametrize("said", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"])
async def test_what_is_not_an_answer_is_a_failure(said: bytes) -> None:
    async def respond(request: object, writer: object) -> None:
        writer.write(said)  # type: ignore[attr-defined]

    async with serving(respond) as server:
        with pytest.raises(CallFailed):
            await Calls().post(server.target(), b"", {}, server.rules)


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answering(500)) as proxy, serving(answering(200)) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        answer = await Calls().post(server.target(), b"", {}, server.rules)

    assert (answer.status, proxy.received) == (200, [])


async def test_the_certificate_must_be_for_the_name_and_the_name_is_sent(tmp_path: Path) -> None:
    server_tls, client_tls = certificates(tmp_path, "right.example")
    seen: list[str | None] = []
    server_tls.sni_callback = lambda connection, name, context: seen.append(name)
    calls = Calls(resolve=Names(right_example=[["127.0.0.1"]], wrong_example=[["127.0.0.1"]]), tls=client_tls)

    async with serving(answering(200), tls=server_tls) as server:
        answer = await calls.post(server.target("right.example", "https"), b"", {}, server.rules)
        with refused(CallFailed, "not_connected") as failed:
            await calls.post(server.target("wrong.example", "https"), b"{}", {}, server.rules)

    assert "certificate" in str(failed.value.facts["problem"])
    assert answer.status == 200
    assert seen == ["right.example", "wrong.example"]
    assert [request.headers["host"] for request in server.received] == [f"right.example:{server.port}"]


async def test_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    server_tls, _ = certificates(tmp_path, "right.example")
    calls = Calls(resolve=Names(right_example=[["127.0.0.1"]]), tls=ssl.create_default_context())

    async with serving(answering(200), tls=server_tls) as server:
        with refused(CallFailed, "not_connected") as failed:
            await calls.post(server.target("right.example", "https"), b"{}", {}, server.rules)
    assert "certificate" in str(failed.value.facts["problem"])
    assert server.received == []


async def test_the_operators_own_address_may_be_private_and_a_tenants_may_not() -> None:
    async with serving(answering(200)) as server:
        assert (await Calls().post(server.target(), b"", {}, OPERATOR)).status == 200
        with pytest.raises(AddressRefused):
            await Calls().post(server.target(), b"", {}, Rules(frozenset({"http"}), frozenset({server.port})))


async def test_an_ordinary_httpx_client_can_use_the_transport() -> None:
    async with serving(answering(200, b"hello")) as server:
        transport = CheckedTransport(server.rules, resolve=Names())
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            assert (await client.get(server.url)).text == "hello"
            with pytest.raises(AddressRefused):
                await client.get("http://169.254.169.254/latest")
            with pytest.raises(httpx.ConnectError):
                await client.get(f"http://nowhere.example:{server.port}/")


@given(
    st.from_regex(r"([a-z0-9_xn-]{1,12}\.){0,3}[a-z0-9_-]{1,12}", fullmatch=True)
    | st.sampled_from(["xn--bcher-kva.de", "[2606:4700::1111]", "8.8.8.8"]),
    st.integers(1, 65535),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30),
)
def test_what_we_checked_is_what_httpx_would_call(host: str, port: int, tail: str) -> None:
    try:
        target = target_of(f"https://{host}:{port}/{tail}")
    except AddressRefused:
        return
    try:
        read = httpx.Request("POST", target.url).url
    except UnicodeError:  # refused by the call, see below
        assert "xn--" in host
        return

    assert (read.raw_scheme, read.raw_host, read.port or 443) == (b"https", target.host_text.encode(), port)


async def test_a_name_that_stands_for_nothing_is_refused_before_any_connection() -> None:
    line = WatchedLine()

    with pytest.raises(AddressRefused):
        await Calls(resolve=Names(), dial=line).post(target_of("https://xn--zz--9/"), b"", {}, Rules())
    assert line.dialled == []


async def test_no_error_and_no_log_line_shows_path_query_headers_or_body_e6_20(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    result = []
    async with serving(answering(200)) as server:
        port = server.port
        rules = server.rules
        await Calls().post(target_of(f"http://127.0.0.1:{port}/{CANARY}?k={CANARY}"), b"", {"x-k": CANARY}, rules)
    for url, allowed in [
        (f"http://127.0.0.1:{port}/{CANARY}?k={CANARY}", rules),
        (f"https://10.0.0.1/{CANARY}", Rules()),
        (f"https://nowhere.example:8443/{CANARY}", Rules()),
        (f"https://example.com:23/{CANARY}", Rules(networks=allow_list(LOOPBACK))),
    ]:
        with pytest.raises((CallFailed, AddressRefused)) as problem:
            await Calls(resolve=Names()).post(target_of(url), CANARY.encode(), {"x-k": CANARY}, allowed)
        result.append(f"{problem.value} {problem.value!r} {problem.value.__cause__!r}")

    assert CANARY not in "".join(result) + caplog.text
