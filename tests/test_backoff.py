"""Waiting out exceeded limits (S4-19, S4-20): 3, 6, 12 seconds, a warning each, the original error at last."""

import asyncio
import email.message
import logging
import urllib.error
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from horae.errors import DefinitionError
from horae.limits import RateLimiter
from horae.limits.backoff import Backoff, backoff, http_status, is_limit_error, retry_after
from horae.testing.clock import LoadedDice, VirtualClock
from tests.support.refusals import refused

LIMIT = RuntimeError("抱歉，您每分钟最多访问该接口200次")


class Room:
    """Virtual time, and what was slept in it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(timedelta(seconds=seconds))

    async def pause_async(self, seconds: float) -> None:
        self.pause(seconds)

    def backoff(self, **options: Any) -> Backoff:
        return backoff(clock=self.clock, pause=self.pause, pause_async=self.pause_async, **options)


class Provider:
    """Fails with these errors, one after another, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0

    def fetch(self, day: str, *, fields: str = "all") -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return f"{day}:{fields}"

    async def fetch_async(self, day: str, *, fields: str = "all") -> str:
        return self.fetch(day, fields=fields)


@pytest.fixture
def room() -> Room:
    return Room()


Ask = Callable[[Backoff, Provider], str]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Ask the provider through a back-off, in both worlds."""
    if request.param == "sync":
        return lambda patient, provider: patient(provider.fetch)("2030", fields="close")
    return lambda patient, provider: asyncio.run(_awaited(patient, provider))


async def _awaited(patient: Backoff, provider: Provider) -> str:
    return await patient(provider.fetch_async)("2030", fields="close")


def response_error(status: int, headers: dict[str, str] | None = None) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "https://example.org")
    return httpx.HTTPStatusError("refused", request=request, response=httpx.Response(status, headers=headers))


def test_a_call_that_works_is_not_delayed(room: Room, ask: Ask) -> None:
    assert ask(room.backoff(), Provider()) == "2030:close"
    assert room.pauses == []


def test_an_exceeded_limit_is_waited_out_for_three_six_and_twelve_seconds(room: Room, ask: Ask) -> None:
    assert ask(room.backoff(), Provider(LIMIT, LIMIT, LIMIT)) == "2030:close"
    assert room.pauses == [3, 6, 12]


def test_after_the_last_try_the_original_error_is_raised(room: Room, ask: Ask) -> None:
    last = RuntimeError("rate limit, the fourth time")
    provider = Provider(LIMIT, LIMIT, LIMIT, last)

    with pytest.raises(RuntimeError) as caught:
        ask(room.backoff(), provider)

    assert caught.value is last
    assert caught.value.__cause__ is None
    assert provider.tries == 4
    assert room.pauses == [3, 6, 12]


def test_another_error_passes_untouched_at_once(room: Room, ask: Ask) -> None:
    provider = Provider(LIMIT, KeyError("no such column"))

    with pytest.raises(KeyError):
        ask(room.backoff(), provider)

    assert provider.tries == 2
    assert room.pauses == [3]


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_speak_passes_as_it_is(room: Room, ask: Ask) -> None:
    provider = Provider(Speechless())

    with pytest.raises(Speechless):
        ask(room.backoff(), provider)
    with pytest.raises(Speechless):
        ask(room.backoff(is_limit_error=lambda _: True), Provider(*(Speechless() for _ in range(4))))

    assert (provider.tries, room.pauses) == (1, [3, 6, 12])


def test_a_wait_beyond_any_calendar_is_not_begun(room: Room, ask: Ask) -> None:
    with pytest.raises(RuntimeError, match="每分钟"):
        ask(room.backoff(factor=1e300), Provider(LIMIT, LIMIT, LIMIT))

    assert room.pauses == [3]


def test_every_retry_is_warned_of(room: Room, ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "horae.backoff"):
        ask(room.backoff(), Provider(LIMIT, LIMIT))

    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "retry 2 of 3 in 6 s" in caplog.messages[1]
    assert "每分钟" in caplog.messages[1]


def test_base_factor_and_number_of_retries_can_be_chosen(room: Room, ask: Ask) -> None:
    with pytest.raises(RuntimeError):
        ask(room.backoff(base=timedelta(seconds=1), factor=3, retries=2), Provider(LIMIT, LIMIT, LIMIT))

    assert room.pauses == [1, 3]


def test_without_retries_the_first_error_is_the_last(room: Room, ask: Ask) -> None:
    with pytest.raises(RuntimeError):
        ask(room.backoff(retries=0), Provider(LIMIT))

    assert room.pauses == []


def test_jitter_only_adds_and_stays_within_its_share(room: Room, ask: Ask) -> None:
    ask(room.backoff(jitter=0.5, dice=LoadedDice(7)), Provider(LIMIT, LIMIT, LIMIT))

    assert all(wait <= answer <= wait * 1.5 for wait, answer in zip((3, 6, 12), room.pauses, strict=True))
    assert room.pauses != [3, 6, 12]


def test_every_try_takes_a_new_place_under_the_limit(room: Room, ask: Ask) -> None:
    limiter = RateLimiter(2, 60, clock=room.clock, pause=room.pause, pause_async=room.pause_async)

    ask(room.backoff(limiter=limiter), Provider(LIMIT, LIMIT))

    assert room.pauses == [3, 6, 60 - 9]  # the third try also waits for the first to leave the window


def test_a_predicate_of_one_s_own_decides_what_is_waited_out(room: Room, ask: Ask) -> None:
    patient = room.backoff(is_limit_error=lambda error: isinstance(error, KeyError))

    ask(patient, Provider(KeyError()))
    with pytest.raises(RuntimeError):
        ask(patient, Provider(LIMIT))

    assert room.pauses == [3]


@pytest.mark.parametrize(("asked", "waited"), [("20", 20), ("1", 3), ("4.5", 4.5), ("soon", 3), ("-5", 3)])
def test_a_server_that_names_a_longer_wait_gets_it(room: Room, ask: Ask, asked: str, waited: float) -> None:
    ask(room.backoff(), Provider(response_error(429, {"Retry-After": asked})))

    assert room.pauses == [waited]


def test_a_server_may_name_the_wait_as_a_date(room: Room, ask: Ask) -> None:
    date = format_datetime(room.clock.now() + timedelta(seconds=45), usegmt=True)

    ask(room.backoff(), Provider(response_error(429, {"retry-after": date})))

    assert room.pauses == [45]


def test_a_date_that_has_passed_asks_for_nothing(room: Room) -> None:
    date = format_datetime(datetime(2001, 1, 1, tzinfo=UTC), usegmt=True)

    assert retry_after(response_error(429, {"retry-after": date}), room.clock) == timedelta(0)


@pytest.mark.parametrize("asked", ["3600", "99999999999999", "9" * 400])
def test_a_server_that_asks_for_too_much_gets_no_retry(room: Room, ask: Ask, asked: str) -> None:
    with pytest.raises(httpx.HTTPStatusError):
        ask(room.backoff(max_wait=60), Provider(response_error(429, {"Retry-After": asked})))

    assert room.pauses == []


class RequestsLike(Exception):
    """As requests raises: the response is attached, its headers are a mapping."""

    def __init__(self, status: int) -> None:
        super().__init__("refused")
        self.response = type("Response", (), {"status_code": status, "headers": {"Retry-After": "30"}})()


class AiohttpLike(Exception):
    """As aiohttp raises: status and headers on the error itself."""

    status = 429
    headers = {"Retry-After": "30"}  # noqa: RUF012 - as it is there


def urllib_error(status: int) -> urllib.error.HTTPError:
    headers = email.message.Message()
    headers["Retry-After"] = "30"
    return urllib.error.HTTPError("https://example.org", status, "refused", headers, None)


@pytest.mark.parametrize(
    "error", [response_error(429, {"Retry-After": "30"}), RequestsLike(429), AiohttpLike(), urllib_error(429)]
)
def test_the_answers_of_the_usual_http_clients_are_understood(room: Room, error: Exception) -> None:
    assert is_limit_error(error)
    assert retry_after(error, room.clock) == timedelta(seconds=30)


@pytest.mark.parametrize("error", [response_error(500), RequestsLike(404), urllib_error(503), ValueError("no")])
def test_other_answers_are_no_exceeded_limits(error: Exception) -> None:
    assert not is_limit_error(error)


@pytest.mark.parametrize(
    "text",
    [
        "API frequency exceeded",
        "You are calling too frequently",
        "limited to 200 calls per minute",
        "Rate limit reached",
        "rate_limit_exceeded",
        "APIRateLimitError",
        "Too Many Requests",
        "访问频率过高",
        "请求过于频繁",
        "抱歉，您每分钟最多访问该接口200次",
        "接口限流，请稍后再试",
        "今日调用超过 500 次",
    ],
)
def test_limits_are_recognised_in_english_and_chinese(text: str) -> None:
    assert is_limit_error(RuntimeError(text))


@pytest.mark.parametrize(
    "text",
    ["", "connection reset", "no such table", "超时", "separate limits", "infrequent", "minute", "429", "数据超过范围"],
)
def test_words_that_only_sound_similar_are_left_alone(text: str) -> None:
    assert not is_limit_error(RuntimeError(text))


def test_an_error_without_a_status_has_none() -> None:
    assert http_status(ValueError()) is None
    assert http_status(SystemExit(True)) is None


def test_it_decorates_plainly_with_options_and_around_a_single_call(room: Room) -> None:
    provider = Provider(LIMIT)

    @room.backoff()
    def fetch(day: str) -> str:
        """Get a day."""
        return provider.fetch(day)

    @backoff
    def plain(day: str) -> str:
        return provider.fetch(day)

    assert fetch("a") == "a:all"
    assert plain("b") == "b:all"
    assert room.backoff().call(provider.fetch, "c", fields="x") == "c:x"
    assert fetch.__doc__ == "Get a day."


async def test_a_single_call_of_an_async_function_is_awaited(room: Room) -> None:
    provider = Provider(LIMIT)

    assert await room.backoff().call(provider.fetch_async, "c", fields="x") == "c:x"
    assert room.pauses == [3]


async def test_a_cancelled_wait_is_not_taken_for_an_error_to_retry(room: Room) -> None:
    sleeping = asyncio.Event()

    async def sleep(_: float) -> None:
        sleeping.set()
        await asyncio.Event().wait()

    provider = Provider(LIMIT)
    task = asyncio.create_task(backoff(pause_async=sleep).call(provider.fetch_async, "a"))
    await sleeping.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.tries == 1


def test_a_generator_cannot_be_tried_again() -> None:
    def pages() -> Iterator[int]:
        yield 1

    with refused(DefinitionError, "backoff_on_generator"):
        backoff(pages)


@pytest.mark.parametrize(
    "options", [{"retries": -1}, {"retries": 1.5}, {"retries": "3"}, {"factor": 0.5}, {"jitter": -0.1}, {"base": -1}]
)
def test_a_policy_that_cannot_work_is_refused(options: dict[str, Any]) -> None:
    with refused(DefinitionError, "backoff_outside"):
        Backoff(**options)
