"""Processes that die by SIGKILL before a statement: whoever comes next must find nothing lost or doubled."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, event

from horae.stores.opening import create_store_engine


def die_before(number: int, url: str, work: Callable[[Engine], object]) -> bool:
    """Do *work* in a child that is killed before its statement or commit of this number; return whether it ended.

    The child has an engine of its own; dispose of others before, because a connection must not be shared.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            engine, sent = create_store_engine(url), 0

            def step(*_: Any) -> None:
                nonlocal sent
                sent += 1
                if sent > number:
                    os.kill(os.getpid(), signal.SIGKILL)

            event.listen(engine, "before_cursor_execute", step)
            event.listen(engine, "commit", step)
            work(engine)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, f"the child failed with {status}"
    return not os.WIFSIGNALED(status)
