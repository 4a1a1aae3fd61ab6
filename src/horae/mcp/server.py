"""The MCP servers, one for agents and one for operators. Expected failures tell the model why and what to do."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, Literal, TypeVar

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated, SubscriptionBus
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, RootModel, create_model

from horae.api.values import to_json
from horae.errors import HoraeError, InvalidInput, NotFound, StoreError
from horae.mcp.confirmations import ConfirmTools
from horae.mcp.governance import GovernanceTools
from horae.mcp.here import Here
from horae.mcp.schedules import ScheduleTools
from horae.mcp.tasks import TaskTools
from horae.mcp.turns import TurnTools
from horae.version import VERSION

T = TypeVar("T")
Selection = Literal["all", "minimal"]
MINIMAL = ("attention_view", "task_add", "safe_point", "wait_for", "schedule_create")
FOCUS = "attention://focus"
JSON = "application/json"
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
REPEATABLE = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
ONE_WAY = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
ENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
DELETES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
FOR_AGENTS = """\
Your attention: one task has your focus, others wait or were interrupted. Nothing wakes you: work is kept; ask for it.
1. safe_point without a task tells what to work on, with the context that you left and what happened since.
2. Between two steps call safe_point with the task and a context: go on if it says continue, stop if it says yield.
3. For something outside use wait_for (with a timeout), and go on with what safe_point gives you next.
4. Before something that needs a person's word use confirm_request. End with task_done or task_fail."""
FOR_OPERATORS = (
    "Agents ask before they act. Answer for a person, never for an agent: an approval permits exactly what it shows."
)


def agent_server(here: Here, tools: Selection = "all") -> MCPServer[None]:
    """Return the server for agents, which has no tool that approves."""
    if tools not in ("all", "minimal"):
        raise InvalidInput("tool_selection_unknown", tools=str(tools))
    tasks, turns, schedules = TaskTools(here), TurnTools(here), ScheduleTools(here)
    governance = GovernanceTools(here)
    offered: list[tuple[Callable[..., Any], ToolAnnotations]] = [
        (tasks.attention_view, READS),
        (tasks.task_add, REPEATABLE),
        (tasks.task_get, READS),
        (tasks.task_list, READS),
        (tasks.task_cancel, ENDS),
        (turns.safe_point, REPEATABLE),
        (turns.wait_for, ONE_WAY),
        (turns.task_done, REPEATABLE),
        (turns.task_fail, REPEATABLE),
        (tasks.event_post, REPEATABLE),
        (turns.confirm_request, ONE_WAY),
        (schedules.schedule_create, REPEATABLE),
        (schedules.schedule_list, READS),
        (schedules.schedule_pause, REPEATABLE),
        (schedules.schedule_delete, DELETES),
        (tasks.journal_read, READS),
        (governance.decide, ONE_WAY),
        (governance.propose, REPEATABLE),
        (governance.recall, READS),
        (governance.evidence, REPEATABLE),
    ]
    bus = InMemorySubscriptionBus() if here.is_alone else None  # else tenants would hear of each other's changes
    chosen = [each for each in offered if tools == "all" or each[0].__name__ in MINIMAL]
    server = _server("horae", FOR_AGENTS, here, [_tool(run, hints, bus) for run, hints in chosen], bus)
    _add_resources(server, tasks)
    return server


def operator_server(here: Here, *, owner: str | None = None, lane: str | None = None) -> MCPServer[None]:
    """Return the server for people who approve, which has no tool of an agent."""
    confirm = ConfirmTools(here, owner, lane)
    tools = [_tool(confirm.confirm_list, READS, None), _tool(confirm.confirm_answer, ENDS, None)]
    return _server("horae-operator", FOR_OPERATORS, here, tools, None)


def _server(
    name: str, instructions: str, here: Here, tools: list[Tool], bus: SubscriptionBus | None
) -> MCPServer[None]:
    @asynccontextmanager
    async def life(_: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):  # a lane is given back also when the end comes in haste
                await anyio.to_thread.run_sync(here.sessions.close)

    return MCPServer(
        name,
        instructions=instructions,
        version=VERSION,
        tools=tools,
        lifespan=life,
        log_level="WARNING",
        subscriptions=bus if bus is not None else False,
    )


def _tool(run: Callable[..., Any], hints: ToolAnnotations, bus: SubscriptionBus | None) -> Tool:
    """Return a function as a tool: run in a thread, with its refusals in words and unknown arguments forbidden."""
    signature = inspect.signature(run, eval_str=True)
    model = _model_of(signature.return_annotation)

    @wraps(run)
    async def call(**arguments: Any) -> BaseModel:
        try:
            answer = await anyio.to_thread.run_sync(partial(run, **arguments))
        except HoraeError as problem:
            raise ToolError(in_words(problem)) from None
        if bus is not None and not hints.read_only_hint:
            await bus.publish(ResourceUpdated(uri=FOCUS))
        return answer if isinstance(answer, BaseModel) else model(answer)

    vars(call)["__signature__"] = signature.replace(return_annotation=model)
    tool = Tool.from_function(call, description=" ".join((run.__doc__ or "").split()), annotations=hints)
    known = tool.fn_metadata.arg_model
    known.model_config = ConfigDict(**{**known.model_config, "extra": "forbid"})
    known.model_rebuild(force=True)
    return tool.model_copy(update={"parameters": known.model_json_schema(by_alias=True)})


def _model_of(answer: type[Any]) -> type[Any]:
    """Return the model through which the SDK describes and writes an answer: a public value as it is."""
    if issubclass(answer, BaseModel):
        return answer
    base: Any = RootModel[answer]  # type: ignore[valid-type]
    made: type[Any] = create_model(answer.__name__, __base__=base, __doc__=answer.__doc__)
    return made


def in_words(problem: HoraeError) -> str:
    """Return the sentence and the code of an error; what the database said stays in the log."""
    if isinstance(problem, StoreError):
        return f"The store does not answer just now; nothing is known to be done. Try again. ({problem.code})"
    return f"{problem} ({problem.code})"


def _add_resources(server: MCPServer[None], tasks: TaskTools) -> None:
    @server.resource(FOCUS, name="focus", description="What has the focus, and all around it.", mime_type=JSON)
    def focus() -> str:
        return _text(tasks.attention_view())

    @server.resource("attention://tasks/{id}", name="task", description="One task.", mime_type=JSON)
    def task(id: str) -> str:  # noqa: A002
        return _text(_read(lambda: tasks.task_get(id)))

    @server.resource(
        "attention://journal{?since}", name="journal", description="What happened, up to 100 lines.", mime_type=JSON
    )
    def journal(since: str = "0") -> str:
        if not (since.isascii() and since.isdigit() and len(since) <= 18):
            raise ResourceNotFoundError("since is the number of a line: 0 or more.")
        return _text(tasks.journal_read(since_seq=int(since), limit=100))


def _text(value: Any) -> str:
    return json.dumps(to_json(value), ensure_ascii=False)


def _read(read: Callable[[], T]) -> T:
    try:
        return read()
    except (NotFound, InvalidInput) as problem:
        raise ResourceNotFoundError(str(problem)) from None
