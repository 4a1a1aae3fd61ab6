"""Durable runs of Pydantic AI: model requests and tool calls are steps of a job, of an action or of a turn.

Needs the extra ``pydantic-ai``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Literal

from horae.adapters.extras import needs_extra
from horae.core.dataclass import dataclass
from horae.errors import DefinitionError
from horae.runtime.steps import KeepsSteps

with needs_extra("pydantic-ai"):
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.durable_exec import (
        JSON_CODEC,
        BaseDurabilityCapability,
        DurabilityEngineSpec,
        DurableOperationBackend,
        DurableOperationId,
        JournalCallableOperationBackend,
        RoleBasedOperationConfig,
    )
    from pydantic_ai.models import Model
    from pydantic_ai.tools import AgentDepsT

__all__ = ["HoraeDurability", "StepBackend", "durable"]
LONGEST = 200  # characters of a step's name


@dataclass
class Journal:
    """The steps of one container: the same calls in the same order have the same names in every try."""

    ctx: KeepsSteps
    counts: Counter[str] = field(default_factory=Counter)

    def next(self, name: str) -> str:
        self.counts[name] += 1
        numbered = f"{name}#{self.counts[name]}"
        if len(numbered) <= LONGEST:
            return numbered
        return f"{hashlib.sha256(name.encode()).hexdigest()}#{self.counts[name]}"


_journal: ContextVar[Journal | None] = ContextVar("horae_pydantic_ai_journal", default=None)


@contextmanager
def durable(ctx: KeepsSteps) -> Iterator[None]:
    """Let agents with ``HoraeDurability`` keep the results of their calls as steps of *ctx* inside this block.

    *ctx* is the context of a job, the step of an action or a turn. A later try replays the block: it gets the results
    back in the order in which they were made, so what the code between them does must not depend on chance. Each call
    runs at least once; one that died between its effect and its record runs again.
    """
    if not isinstance(ctx, KeepsSteps):
        raise DefinitionError("durable_needs_context", type=type(ctx).__name__)
    token = _journal.set(Journal(ctx))
    try:
        yield
    finally:
        _journal.reset(token)


class StepBackend(JournalCallableOperationBackend[None]):
    """Runs each durable operation as one step."""

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: None,
    ) -> object:
        """Look the operation up, or run it outside any transaction and keep its result."""
        journal = _journal.get()
        if journal is None:
            return await body()
        result: object = await journal.ctx.step_async(journal.next(name), body)
        return result


class HoraeDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes an agent durable inside :func:`durable`; outside it the agent runs as ever.

    .. code-block:: python

        agent = Agent("openai:gpt-5", name="support", capabilities=[HoraeDurability()])

        @app.job("answer")
        async def answer(ctx: Context, question: str):
            with durable(ctx):
                return (await agent.run(question)).output

    A tool with ``metadata={"horae": False}`` is no step: it runs again in every try. Tools run one after the other, so
    that their order is the same in every try.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Horae",
        durable_unit_noun="step",
        durable_container_noun="job",
        codec=JSON_CODEC,
        sequential_tools_in_durable_context=True,
        tool_config_key="horae",
    )

    def __init__(
        self,
        *,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)

    @property
    def in_durable_context(self) -> bool:
        """Whether a block of :func:`durable` is open."""
        return _journal.get() is not None

    def get_durable_operation_backend(self) -> DurableOperationBackend[None]:
        """Return the backend whose operations are steps."""
        config = RoleBasedOperationConfig[None](
            model=None, event=None, capability=None, tool=None, resolve_tool=_tool_config
        )
        return StepBackend(agent_name=self.name, default_model_id=self.default_model_id, config=config)


def _tool_config(_operation: DurableOperationId, tool: object | None, _name: str) -> Literal[False] | None:
    definition = getattr(tool, "tool_def", None)
    metadata = getattr(definition, "metadata", None) or {}
    return False if metadata.get("horae") is False else None
