"""The suite every executor must pass; it runs unchanged on all of them.

The author of an executor (the port ``horae.executors.RemoteExecutor``) proves it with a fixture and a subclass in a
test file:

.. code-block:: python

    import pytest
    from horae.testing.conformance.executors import ExecutorConformance


    @pytest.fixture
    def make_executor():
        return lambda: MyExecutor(...)  # each as another worker would make it, all of them on one cluster


    class TestMyExecutor(ExecutorConformance):
        pass

It needs nothing but pytest, and a cluster that can import ``horae`` and reach the folder of the fixture
``shared_folder``, by default one of this machine.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from horae.clock import SystemClock
from horae.core.dataclass import dataclass
from horae.core.jobs.remote import remote_name
from horae.executors import probes as handlers
from horae.ports.executors import Handle, RemoteCall, RemoteEnding, RemoteExecutor
from horae.runtime.loop import sleep_in_thread
from horae.runtime.worker.remote import call_document
from horae.testing.builders import a_job

LIMIT = 60.0  # seconds; only what never happens takes so long
SHORT = timedelta(seconds=0.2)
numbers = itertools.count(1)


@dataclass(frozen=True)
class Plain:
    """A definition, as far as a call needs it."""

    function: Callable[..., Any]
    takes_context: bool
    executor: str = ""
    timeout: timedelta | None = None
    decide: None = None
    rate_limit: None = None
    tenants: bool = False

    @property
    def name(self) -> str:
        return self.function.__name__


def a_call(function: Callable[..., Any], *, max_bytes: int = 10_000, **payload: Any) -> RemoteCall:
    """Return a call of one of the suite's handlers, with a name that no other run of the suite uses."""
    job = a_job("running", number=next(numbers), payload=payload, handler=f"{function.__name__}-{os.getpid()}")
    job = type(job)(**{**{name: getattr(job, name) for name in job.__dataclass_fields__}, "created_at": NOW()})
    handler = Plain(function, takes_context="ctx" in function.__code__.co_varnames[: function.__code__.co_argcount])
    return RemoteCall(remote_name(job), job.id, 1, call_document(handler, job, max_bytes))


NOW = SystemClock().now


def wait_for(holds: Callable[[], Any], what: str) -> Any:
    """Ask until it is so."""
    clock = SystemClock()
    ends_by = clock.monotonic() + LIMIT
    while not (answer := holds()):
        assert clock.monotonic() < ends_by, f"{what} did not happen within {LIMIT:g} s"
        sleep_in_thread(0.05)
    return answer


def ended(executor: RemoteExecutor, handle: Handle) -> RemoteEnding:
    """Return what a call has left once it has ended."""
    wait_for(lambda: executor.wait(handle, timedelta(seconds=2)).state == "ended", "the end of the call")
    return executor.collect(handle)


def ending_of(executor: RemoteExecutor, call: RemoteCall) -> dict[str, Any]:
    """Run a call to its end, let it be forgotten, and return its ending."""
    handle = executor.submit(call)
    found = ended(executor, handle)
    executor.cancel(handle)
    assert found.ending is not None, found
    known: dict[str, Any] = json.loads(found.ending)
    return known


class ExecutorConformance:
    """Every promise of an executor."""

    @pytest.fixture
    def executor(self, make_executor: Callable[[], RemoteExecutor]) -> RemoteExecutor:
        return make_executor()

    @pytest.fixture
    def shared_folder(self, tmp_path: Path) -> Path:
        return tmp_path

    def test_a_call_returns_what_its_handler_returned(self, executor: RemoteExecutor) -> None:
        assert ending_of(executor, a_call(handlers.add, a=1, b=2)) == {"how": "returned", "result": "3"}

    def test_an_async_handler_is_awaited(self, executor: RemoteExecutor) -> None:
        assert ending_of(executor, a_call(handlers.add_async, a=1, b=2)) == {"how": "returned", "result": "3"}

    def test_a_handler_knows_its_job(self, executor: RemoteExecutor) -> None:
        call = a_call(handlers.describe)

        known = json.loads(ending_of(executor, call)["result"])

        assert known == {"job_id": call.job_id, "attempt": 1, "key": call.job_id, "owner": "system"}

    def test_an_error_travels_with_its_type_and_its_trace(self, executor: RemoteExecutor) -> None:
        known = ending_of(executor, a_call(handlers.fail, text="the printer is on fire"))

        assert (known["how"], known["final"]) == ("raised", False)
        assert known["error"].startswith("ValueError: the printer is on fire\n")
        assert "probes.py" in known["error"]

    def test_snooze_and_cancel_travel(self, executor: RemoteExecutor) -> None:
        assert ending_of(executor, a_call(handlers.snooze)) == {"how": "snoozed", "seconds": 90.0, "error": "later"}
        assert ending_of(executor, a_call(handlers.cancel)) == {"how": "cancelled", "error": "not wanted"}

    def test_a_result_that_cannot_be_stored_is_said_and_left_out(self, executor: RemoteExecutor) -> None:
        long = ending_of(executor, a_call(handlers.repeat, max_bytes=1_000, text="x", times=2_000))
        strange = ending_of(executor, a_call(handlers.return_no_json))

        assert (long["how"], long["result"], strange["how"], strange["result"]) == ("returned", "null") * 2
        assert long["error"]
        assert strange["error"]

    def test_a_result_of_many_bytes_arrives_whole(self, executor: RemoteExecutor) -> None:
        known = ending_of(executor, a_call(handlers.repeat, max_bytes=200_000, text="é", times=20_000))

        assert json.loads(known["result"]) == "é" * 20_000

    def test_what_needs_the_database_is_refused_in_words(self, executor: RemoteExecutor) -> None:
        known = ending_of(executor, a_call(handlers.save))

        assert known["how"] == "raised"
        assert "ctx.checkpoint needs the database" in known["error"]

    def test_lines_and_progress_travel_while_it_runs(self, executor: RemoteExecutor, shared_folder: Path) -> None:
        handle = executor.submit(a_call(handlers.report, folder=str(shared_folder)))

        wait_for(lambda: executor.look(handle).progress == {"done": 0.5}, "the progress")
        wait_for(lambda: ("INFO", "half of it is done") in executor.collect(handle).lines, "the line")
        assert executor.look(handle).state == "running"
        assert executor.collect(handle).ending is None

        executor.cancel(handle)

    def test_lines_are_there_at_the_end(self, executor: RemoteExecutor, shared_folder: Path) -> None:
        (shared_folder / "go").touch()
        handle = executor.submit(a_call(handlers.report, folder=str(shared_folder)))

        assert ("INFO", "half of it is done") in ended(executor, handle).lines

        executor.cancel(handle)

    def test_the_same_name_again_starts_nothing(
        self, make_executor: Callable[[], RemoteExecutor], shared_folder: Path
    ) -> None:
        call = a_call(handlers.hold, folder=str(shared_folder))
        first, second = make_executor(), make_executor()

        handles = [each.submit(call) for each in (first, second, first)]
        wait_for((shared_folder / "alive").exists, "the start")
        (shared_folder / "go").touch()

        assert [json.loads(ended(second, each).ending or "")["result"] for each in handles] == ['"let go"'] * 3
        assert len((shared_folder / "began").read_text().split()) == 1
        second.cancel(handles[0])

    def test_another_worker_follows_a_call_by_its_handle(
        self, make_executor: Callable[[], RemoteExecutor], shared_folder: Path
    ) -> None:
        first, second = make_executor(), make_executor()
        handle = first.submit(a_call(handlers.hold, folder=str(shared_folder)))
        wait_for((shared_folder / "alive").exists, "the start")
        getattr(first, "close", lambda: None)()

        stored = json.loads(json.dumps(dict(handle)))
        wait_for(lambda: second.look(stored).state == "running", "a look at it")
        (shared_folder / "go").touch()

        assert json.loads(ended(second, stored).ending or "") == {"how": "returned", "result": '"let go"'}
        second.cancel(stored)

    def test_a_wait_ends_at_its_limit(self, executor: RemoteExecutor, shared_folder: Path) -> None:
        handle = executor.submit(a_call(handlers.hold, folder=str(shared_folder)))

        assert executor.wait(handle, SHORT).state in ("waiting", "running")

        executor.cancel(handle)

    def test_what_has_ended_can_be_collected_again(self, executor: RemoteExecutor) -> None:
        handle = executor.submit(a_call(handlers.add, a=1, b=2))

        assert ended(executor, handle) == executor.collect(handle)

        executor.cancel(handle)

    def test_a_cancelled_call_has_stopped_and_is_gone(self, executor: RemoteExecutor, shared_folder: Path) -> None:
        handle = executor.submit(a_call(handlers.hold, folder=str(shared_folder)))
        wait_for((shared_folder / "alive").exists, "the start")

        executor.cancel(handle)
        before = (shared_folder / "alive").stat().st_size
        sleep_in_thread(handlers.TICK * 10)

        assert (shared_folder / "alive").stat().st_size == before
        assert executor.look(handle).state == "gone"

    def test_a_call_that_has_ended_can_be_forgotten(self, executor: RemoteExecutor) -> None:
        handle = executor.submit(a_call(handlers.add, a=1, b=2))
        ended(executor, handle)

        executor.cancel(handle)
        executor.cancel(handle)

        assert executor.look(handle).state == "gone"
        assert executor.wait(handle, SHORT).state == "gone"

    @pytest.mark.parametrize("call", [(handlers.die, {"code": 3}), (handlers.kill_itself, {})], ids=["exit", "kill"])
    def test_a_process_that_dies_has_not_returned(
        self, executor: RemoteExecutor, call: tuple[Callable[..., Any], dict[str, Any]]
    ) -> None:
        handle = executor.submit(a_call(call[0], **call[1]))

        over = lambda: (found := executor.wait(handle, timedelta(seconds=2))).state in ("ended", "gone") and found  # noqa: E731  # beside the call that takes it
        state = wait_for(over, "the end").state
        assert state == "gone" or executor.collect(handle).ending is None
        assert state == "gone" or executor.collect(handle).error

        executor.cancel(handle)
