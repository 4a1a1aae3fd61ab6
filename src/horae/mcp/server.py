"""The MCP servers, one for agents and one for operators. Expected failures tell the model why and what to do."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial, wraps
from types import MethodType
from typing import Any, Literal, TypeVar, cast

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated, SubscriptionBus
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, ConfigDict, RootModel, ValidationError, create_model

from horae.api.values import to_json
from horae.errors import HoraeError, InvalidInput, NotFound
from horae.mcp.confirmations import ConfirmTools
from horae.mcp.durable_calls import DurableCalls
from horae.mcp.governance import GovernanceTools
from horae.mcp.here import Here
from horae.mcp.instructions import FOR_OPERATORS, instructions, loop
from horae.mcp.refusals import argument_faults, tool_refusal, unknown_tool, without_commands
from horae.mcp.schedules import ScheduleTools
from horae.mcp.tasks import TaskTools
from horae.mcp.turns import TurnTools
from horae.version import VERSION

T = TypeVar("T")
Selection = Literal["all", "minimal"]
MINIMAL = (
    "attention_view", "task_add", "next_work", "safe_point", "wait_for", "task_done", "task_fail", "schedule_create",
)  # fmt: skip
FOCUS = "attention://focus"
JSON = "application/json"
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
REPEATABLE = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
ONE_WAY = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
ENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
DELETES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)


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
        (turns.next_work, REPEATABLE),
        (turns.wait_for, ONE_WAY),
        (turns.task_done, REPEATABLE),
        (turns.task_fail, REPEATABLE),
        (tasks.event_post, REPEATABLE),
        (turns.confirm_request, ONE_WAY),
        (turns.grant_redeem, REPEATABLE),
        (turns.action_report, ONE_WAY),
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
    made = [_tool(run, hints, bus) for run, hints in chosen]
    names = [tool.name for tool in made]
    server = _server("horae", instructions(names), here, made, bus, (DurableCalls(here, tasks),))
    _add_resources(server, tasks)
    _add_prompts(server, names)
    return server


def operator_server(here: Here, *, owner: str | None = None, lane: str | None = None) -> MCPServer[None]:
    """Return the server for people who approve, which has no tool of an agent."""
    confirm = ConfirmTools(here, owner, lane)
    tools = [_tool(confirm.confirm_list, READS, None), _tool(confirm.confirm_answer, ENDS, None)]
    return _server("horae-operator", FOR_OPERATORS, here, tools, None)


def _server(
    name: str, text: str, here: Here, tools: list[Tool], bus: SubscriptionBus | None,
    extensions: Sequence[Extension] = (),
) -> MCPServer[None]:  # fmt: skip
    @asynccontextmanager
    async def life(_: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):  # a lane is given back also when the end comes in haste
                await anyio.to_thread.run_sync(here.sessions.close)

    return ExplainingServer(
        name,
        instructions=text,
        version=VERSION,
        tools=tools,
        lifespan=life,
        log_level="WARNING",
        subscriptions=bus if bus is not None else False,
        extensions=extensions,
    )


class ExplainingTool(Tool):
    """A tool whose refusals name the argument to change."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Run the tool; refuse arguments that do not fit in words for a model."""
        known = self.fn_metadata.arg_model.model_fields
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as problem:
            faults = argument_faults(self.name, problem, known)
            raise ToolError(f"Error executing tool {self.name}: {faults}") from problem
        return await super().run(arguments, context, convert_result)


class ExplainingServer(MCPServer[None]):
    """A server that says which tools there are when it is asked for one that it does not have."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool by name."""
        known = {tool.name for tool in await self.list_tools()}
        if name not in known:
            raise ToolError(unknown_tool(name, known))
        return await super().call_tool(name, arguments, context)


def _tool(run: Callable[..., Any], hints: ToolAnnotations, bus: SubscriptionBus | None) -> Tool:
    """Return a method as a tool: run in a thread, with its refusals in words and unknown arguments forbidden."""
    described, signature, model = _describe(cast("MethodType", run).__func__)

    async def call(**arguments: Any) -> BaseModel:
        try:
            if inspect.iscoroutinefunction(run):
                answer = await run(**arguments)
            else:
                answer = await anyio.to_thread.run_sync(partial(run, **arguments))
        except HoraeError as problem:
            raise ToolError(tool_refusal(described.name, problem, signature.parameters)) from None
        if bus is not None and not hints.read_only_hint:
            await bus.publish(ResourceUpdated(uri=FOCUS))
        return answer if isinstance(answer, BaseModel) else model(answer)

    return described.model_copy(update={"fn": call, "annotations": hints})


@cache
def _describe(function: Callable[..., Any]) -> tuple[Tool, inspect.Signature, type[Any]]:
    """Return a method as a tool that does nothing, its arguments and its answer.

    They are the same for all servers of a process, and making them for all tools takes a third of a second.
    """
    whole = inspect.signature(function, eval_str=True)
    signature = whole.replace(parameters=list(whole.parameters.values())[1:])  # without self
    model = _model_of(signature.return_annotation)

    @wraps(function)
    async def call(**_: Any) -> None: ...

    vars(call)["__signature__"] = signature.replace(return_annotation=model)
    made = ExplainingTool.from_function(call, description=" ".join((function.__doc__ or "").split()))
    known = made.fn_metadata.arg_model
    known.model_config = ConfigDict(**{**known.model_config, "extra": "forbid"})
    known.model_rebuild(force=True)
    return made.model_copy(update={"parameters": known.model_json_schema(by_alias=True)}), signature, model


def _model_of(answer: type[Any]) -> type[Any]:
    """Return the model through which the SDK describes and writes an answer: a public value as it is."""
    if issubclass(answer, BaseModel):
        return answer
    base: Any = RootModel[answer]  # type: ignore[valid-type]  # known at run time
    made: type[Any] = create_model(answer.__name__, __base__=base, __doc__=answer.__doc__)
    return made


def _add_resources(server: MCPServer[None], tasks: TaskTools) -> None:
    @server.resource(FOCUS, name="focus", description="What has the focus, and all around it.", mime_type=JSON)
    def focus() -> str:
        return _text(tasks.attention_view())

    @server.resource("attention://tasks/{id}", name="task", description="One task.", mime_type=JSON)
    def task(id: str) -> str:  # noqa: A002  # the name in the template of the URI
        return _text(_read(lambda: tasks.task_get(id)))

    @server.resource(
        "attention://journal{?since}", name="journal", description="What happened, up to 100 lines.", mime_type=JSON
    )
    def journal(since: str = "0") -> str:
        if not (since.isascii() and since.isdigit() and len(since) <= 18):
            raise ResourceNotFoundError("since is the number of a line: 0 or more.")
        return _text(tasks.journal_read(since_seq=int(since), limit=100))


def _add_prompts(server: MCPServer[None], tools: Collection[str]) -> None:
    @server.prompt("work", "Work on your tasks", "Start the loop: take the next task, work, hand over, and again.")
    def work(until: str = "you are told to stop") -> str:
        return loop(tools, until[:200])


def _text(value: Any) -> str:
    return json.dumps(to_json(value), ensure_ascii=False)


def _read(read: Callable[[], T]) -> T:
    try:
        return read()
    except (NotFound, InvalidInput) as problem:
        raise ResourceNotFoundError(without_commands(str(problem))) from None
