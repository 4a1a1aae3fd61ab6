"""Handlers in child processes (placeholder until the real one lands)."""

from __future__ import annotations

from typing import Any

from horae.runtime.context import Context
from horae.runtime.executor import Handler


class Children:
    async def run(self, handler: Handler, ctx: Context) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        return
