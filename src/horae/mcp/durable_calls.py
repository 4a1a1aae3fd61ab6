"""The tasks extension of MCP (``io.modelcontextprotocol/tasks``, SEP-2663) on the store: a long call is a durable task.

``task_add`` with *wait* takes as long as the task does. A client that declares the extension gets a handle at once,
which is the id of the task in the lane: every answer is read from its row, so a handle survives restarts and works on
any server of the same database. A handle belongs to the actor (over HTTP: the token) that asked, and ends with its TTL;
the task itself stays. A confirmation is never handed to the client as a request for input: only a person may answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, RequestParams, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from horae.api.attention.values import TaskDetail
from horae.api.values import to_json
from horae.core.attention.task import FINAL
from horae.core.time.instants import iso
from horae.errors import HoraeError, NotFound
from horae.mcp.here import Here
from horae.mcp.refusals import tool_refusal
from horae.mcp.tasks import ASKED_BY, IS_HANDLE, TaskTools

IDENTIFIER = "io.modelcontextprotocol/tasks"
TOOL = "task_add"
TTL = timedelta(days=7)
POLL_EVERY = timedelta(seconds=2)
LAST_LINES = 1000  # of the journal, among which the last one about a task is looked for
VERSIONS = frozenset(MODERN_PROTOCOL_VERSIONS)  # an older client has no shape for a handle
Status = Literal["working", "completed", "cancelled"]
MESSAGES = {
    "created": "Its start has not come.",
    "ready": "It is in the backlog.",
    "running": "The agent works on it.",
    "suspended": "It was interrupted and comes back.",
    "waiting": "It waits for an event or a person.",
}


class TaskParams(RequestParams):
    """The parameters of all methods about one task."""

    task_id: str = Field(alias="taskId", min_length=1, max_length=100)


class UpdateParams(TaskParams):
    """Answers to requests for input; there are none here, so they are ignored."""

    input_responses: dict[str, Any] = Field(alias="inputResponses", default_factory=dict)


class DurableCalls(Extension):
    """Long calls as tasks that outlive the connection and the server."""

    identifier = IDENTIFIER

    def __init__(self, here: Here, tools: TaskTools) -> None:
        self._here, self._tools = here, tools

    def methods(self) -> Sequence[MethodBinding]:
        """Offer the three methods of the extension."""
        return (
            MethodBinding("tasks/get", TaskParams, self._get, VERSIONS),
            MethodBinding("tasks/update", UpdateParams, self._update, VERSIONS),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, VERSIONS),
        )

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer a call that would wait with a handle, where the client declares that it takes one."""
        if params.name != TOOL or (params.arguments or {}).get("wait") is not True or not _declares(ctx):
            return await call_next(ctx)
        mark = IS_HANDLE.set(True)
        try:
            answer = await call_next(ctx)
        finally:
            IS_HANDLE.reset(mark)
        if not isinstance(answer, CallToolResult) or answer.is_error or answer.structured_content is None:
            return answer
        task = await self._find(str(answer.structured_content["id"]))
        return {"resultType": "task", **await self._status(task)}

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        require_client_extension(ctx, IDENTIFIER)
        task = await self._find(params.task_id)
        result = {"result": self._result(task)} if _status(task) == "completed" else {}
        return {"resultType": "complete", **await self._status(task), **result}

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> HandlerResult:
        require_client_extension(ctx, IDENTIFIER)
        await self._find(params.task_id)
        return {"resultType": "complete"}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        require_client_extension(ctx, IDENTIFIER)
        task = await self._find(params.task_id)
        cancel = partial(self._tools.task_cancel, task.id, reason="the call that asked for it was cancelled")
        await self._ask("tasks/cancel", cancel)
        return {"resultType": "complete"}

    # -- the parts -----------------------------------------------------------------------------------------------

    async def _find(self, task_id: str) -> TaskDetail:
        """Return the task behind a handle of this caller; any other is unknown, as is one whose time is up."""
        read = partial(self._here.attention.task, self._here.lane, task_id)
        task: TaskDetail = await self._ask("tasks/get", read)
        asked_by = task.payload.get(ASKED_BY) if isinstance(task.payload, dict) else None
        if asked_by != self._here.who().actor or _made_at(task) + TTL <= self._here.world.clock.now():
            raise _unknown(task_id)
        return task

    async def _ask(self, method: str, ask: Any) -> Any:
        try:
            return await anyio.to_thread.run_sync(ask)
        except NotFound as problem:
            raise _unknown(str(problem.facts.get("id", ""))) from None
        except HoraeError as problem:
            raise MCPError(code=INVALID_PARAMS, message=tool_refusal(method, problem, ("taskId",))) from None

    async def _status(self, task: TaskDetail) -> dict[str, Any]:
        changed_at = await anyio.to_thread.run_sync(partial(self._changed_at, task))
        return {
            "taskId": task.id,
            "status": _status(task),
            "statusMessage": _message(task),
            "createdAt": iso(_made_at(task)),
            "lastUpdatedAt": iso(changed_at),
            "ttlMs": TTL // timedelta(milliseconds=1),
            "pollIntervalMs": POLL_EVERY // timedelta(milliseconds=1),
        }

    def _changed_at(self, task: TaskDetail) -> datetime:
        """Return when the journal last had a line about a task; its creation where that is long ago."""
        here = self._here
        last = here.attention.get(here.lane, limit=1).lane.seq
        page = here.attention.journal(here.lane, since=max(0, last - LAST_LINES), task=task.id).page(limit=LAST_LINES)
        return page.items[-1].at if page.items else _made_at(task)

    def _result(self, task: TaskDetail) -> dict[str, Any]:
        """Return what the call would have answered."""
        answer = to_json(self._tools.as_added(task, deduplicated=False))
        text = f"Task {task.id} has failed: {task.reason}" if task.state == "failed" else str(answer.get("result"))
        result = CallToolResult(
            content=[TextContent(type="text", text=text)],
            structured_content=answer,
            is_error=task.state == "failed",
        )
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)


def _declares(ctx: ServerRequestContext[Any, Any]) -> bool:
    capabilities = ctx.session.client_capabilities
    declared = capabilities.extensions if capabilities else None
    return ctx.protocol_version in VERSIONS and IDENTIFIER in (declared or {})


def _made_at(task: TaskDetail) -> datetime:
    assert task.created_at is not None
    return task.created_at


def _status(task: TaskDetail) -> Status:
    """Return the status of a handle; a task that failed is a call that was answered with an error."""
    return "working" if task.state not in FINAL else "cancelled" if task.state == "cancelled" else "completed"


def _message(task: TaskDetail) -> str:
    ended = f"It is {task.state}{f': {task.reason}' if task.reason else ''}."
    return MESSAGES.get(task.state, ended)


def _unknown(task_id: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=f"There is no task {task_id[:100]!r} of this caller: change `taskId`.")
