"""Processes that die by SIGKILL before a statement: whoever comes next must find nothing lost or doubled."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, event

from horae.stores.opening import create_store_engine

Watch = Callable[[Any], None]


def die_before(number: int, url: str, work: Callable[[Engine], object]) -> bool:
    """Do *work* in a child that is killed before its statement or commit of this number; return whether it ended.

    The child has an engine of its own; dispose of others before, because a connection must not be shared.
    """

    def begin(watch: Watch) -> None:
        engine = create_store_engine(url)
        watch(engine)
        work(engine)

    return die_watched(number, begin)


def die_watched(number: int, work: Callable[[Watch], object]) -> bool:
    """Do the same where *work* says whose statements count: of one engine, or of the class for those of all."""
    child = os.fork()
    if child == 0:
        code, sent = 1, 0

        def step(*_: Any) -> None:
            nonlocal sent
            sent += 1
            if sent > number:
                os.kill(os.getpid(), signal.SIGKILL)

        def watch(engines: Any) -> None:
            event.listen(engines, "before_cursor_execute", step)
            event.listen(engines, "commit", step)

        try:
            work(watch)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, f"the child failed with {status}"
    return not os.WIFSIGNALED(status)
