"""Checks of the NATS servers: whether they keep what they acknowledge, asked of the servers themselves."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator, Sequence
from datetime import timedelta
from typing import Any
from urllib.request import urlopen

from horae.core.dataclass import dataclass
from horae.doctor.findings import Check, Finding, Installation, ok, problem, some, warning
from horae.errors import HoraeError
from horae.runtime.nats import close, connect
from horae.runtime.sources.bus_line import CALLS, JOBS
from horae.settings import Settings

LIMIT = 4.0  # seconds for the whole check
ONE_ANSWER = 1.5  # seconds for one answer of a server
ENOUGH = 3  # servers that keep a stream: one may be lost
EVENT_WINDOW = timedelta(minutes=10)  # a relay that was away for as long publishes again what it had published
CALL_WINDOW = timedelta(seconds=30)
NANOSECONDS = 1_000_000_000
PING = "$SYS.REQ.SERVER.PING.VARZ"


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What the doctor wants to know of a stream."""

    name: str
    replicas: int
    window: float  # seconds within which a repeated message id is dropped


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """How a server writes to disk; *interval* in seconds."""

    name: str
    always: bool
    interval: float


def bus_streams(installation: Installation) -> Iterator[Finding]:
    """Check the streams: how many servers keep each, and whether it knows a repeated message again for long enough."""
    settings = installation.settings
    if not settings.nats:
        return
    found = _within_limit(_streams(settings))
    if isinstance(found, Exception):
        yield problem("nats", "bus_servers_away", problem=str(found))
        return
    few = [f"{each.name} ({each.replicas})" for each in found if each.replicas < ENOUGH]
    short = [each for each in found if each.window < _least_window(settings, each)]
    if few:
        yield warning("nats", "bus_replicas_few", "export HORAE_NATS_REPLICAS=3", names=some(few), most=ENOUGH)
    for each in short:
        least = _least_window(settings, each)
        yield warning("nats", "bus_window_short", stream=each.name, window=each.window, least=least)
    if not found:
        yield ok("nats", "bus_streams_none")
    elif not few and not short:
        yield ok("nats", "bus_streams_well", names=some(each.name for each in found))


def bus_flush(installation: Installation) -> Iterator[Finding]:
    """Check that the servers write to disk before they acknowledge; what they say counts more than who vouches."""
    settings = installation.settings
    if not settings.nats:
        return
    known: list[ServerFacts] = []
    for address in settings.nats_monitor:
        answer = _ask_monitor(address)
        if isinstance(answer, Exception):
            yield warning("nats", "bus_monitor_away", address=_without_password(address), problem=str(answer))
        else:
            known += answer
    late = [each for each in known if not each.always]
    if late and settings.nats_flush != "interval":
        interval = max(each.interval for each in late)
        names = some(sorted({each.name for each in late}))
        yield problem("nats", "bus_flush_late", "sync_interval: always", names=names, interval=interval)
    elif late or settings.nats_flush == "interval":
        yield ok("nats", "bus_flush_accepted")
    elif known:
        yield ok("nats", "bus_flush_well", names=some(sorted({each.name for each in known})))
    elif settings.nats_flush == "always":
        yield ok("nats", "bus_flush_vouched")
    else:
        yield warning("nats", "bus_flush_unknown", "export HORAE_NATS_MONITOR=http://…:8222")


def _least_window(settings: Settings, stream: StreamFacts) -> float:
    is_events = stream.name == settings.nats_stream
    return (EVENT_WINDOW if is_events else CALL_WINDOW).total_seconds()


async def _streams(settings: Settings) -> list[StreamFacts]:
    client = await connect(settings.nats, {}, max_reconnect_attempts=1, connect_timeout=ONE_ANSWER)
    try:
        from nats.js.errors import NotFoundError

        streams, found = client.jetstream(timeout=ONE_ANSWER), []
        for name in (settings.nats_stream, settings.nats_stream + JOBS, settings.nats_stream + CALLS):
            try:
                config = (await streams.stream_info(name)).config
            except NotFoundError:
                continue
            found.append(StreamFacts(name, config.num_replicas or 1, float(config.duplicate_window or 0)))
        return found
    finally:
        await close(client)


def _ask_monitor(address: str) -> list[ServerFacts] | Exception:
    """Ask one server by its monitoring, or all of them by the system account."""
    if address.startswith(("nats://", "tls://")):
        answer: list[ServerFacts] | Exception = _within_limit(_ask_system(address))
        return answer
    try:
        with urlopen(f"{address.rstrip('/')}/varz", timeout=ONE_ANSWER) as facts:  # http and https only, by settings
            return [_server(json.load(facts))]
    except (OSError, ValueError, KeyError, TypeError) as trouble:
        return trouble


async def _ask_system(address: str) -> list[ServerFacts]:
    client = await connect([address], {}, max_reconnect_attempts=1, connect_timeout=ONE_ANSWER)
    found: list[ServerFacts] = []
    try:
        answers = await client.subscribe(inbox := client.new_inbox())
        await client.publish(PING, b"{}", reply=inbox)
        try:
            while True:  # how many servers there are is unknown: those that answer in time
                message = await answers.next_msg(timeout=ONE_ANSWER)
                found.append(_server(json.loads(message.data)["data"]))
        except TimeoutError:
            pass
        if not found:
            raise TimeoutError("no server answers; is this the system account?")
        return found
    finally:
        await close(client)


def _server(facts: dict[str, Any]) -> ServerFacts:
    config = facts["jetstream"]["config"]
    interval = float(config.get("sync_interval", 0)) / NANOSECONDS
    return ServerFacts(str(facts.get("server_name", "?")), bool(config.get("sync_always")), interval)


def _within_limit(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a thread of its own, whether or not this one has an event loop; return an error instead of raising."""
    answer: list[Any] = []

    async def bounded() -> Any:
        async with asyncio.timeout(LIMIT):
            return await work

    def run() -> None:
        try:
            answer.append(asyncio.run(bounded()))
        except (HoraeError, OSError, ValueError, KeyError, TimeoutError) as trouble:
            answer.append(trouble)
        except Exception as trouble:
            answer.append(TimeoutError(f"{type(trouble).__name__}: {trouble}"))

    thread = threading.Thread(target=run, name="horae-doctor", daemon=True)
    thread.start()
    thread.join(LIMIT + 1.0)
    return answer[0] if answer else TimeoutError(f"no answer within {LIMIT:g} seconds")


def _without_password(address: str) -> str:
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


CHECKS: Sequence[Check] = (bus_streams, bus_flush)
