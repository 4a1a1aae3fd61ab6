"""What attempts ask for together is answered together, and an error reaches those whom it concerns."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from horae.runtime.schedules.batches import MOST, Batches

T = TypeVar("T")


async def call(work: Callable[[], T]) -> T:
    await asyncio.sleep(0)
    return work()


class Doubling:
    """Doubles numbers and keeps what it was asked for; refuses a batch with a zero in it."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.calls.append(list(numbers))
        if 0 in numbers:
            raise LookupError("no zero")
        return [number * 2 if number > 0 else ValueError(number) for number in numbers]


async def ask(batches: Batches[int, int], number: int) -> int:
    return await batches.ask(number, call)


async def test_those_who_begin_together_are_answered_by_one_call() -> None:
    doubling = Doubling()
    batches = Batches(doubling)

    assert await asyncio.gather(*(ask(batches, number) for number in (1, 2, 3))) == [2, 4, 6]
    assert await ask(batches, 4) == 8
    assert doubling.calls == [[1, 2, 3], [4]]


async def test_one_call_answers_a_bounded_number() -> None:
    doubling = Doubling()
    batches = Batches(doubling)

    await asyncio.gather(*(ask(batches, number) for number in range(1, MOST + 2)))

    assert [len(each) for each in doubling.calls] == [MOST, 1]


async def test_an_error_of_one_reaches_that_one_and_an_error_of_the_call_all_of_its_batch() -> None:
    batches = Batches(Doubling())
    asked: list[Awaitable[int]] = [ask(batches, number) for number in (1, -1)]

    fine, refused = await asyncio.gather(*asked, return_exceptions=True)
    assert fine == 2
    assert isinstance(refused, ValueError)
    with pytest.raises(LookupError):
        await ask(batches, 0)
    assert await ask(batches, 5) == 10


async def test_who_stops_waiting_keeps_no_other_from_the_answer() -> None:
    batches = Batches(Doubling())
    gone = batches.ask(1, call)
    waiting = asyncio.ensure_future(ask(batches, 2))
    gone.cancel()

    assert await waiting == 4
