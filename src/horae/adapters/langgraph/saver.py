"""Keep checkpoints of LangGraph in Horae's database."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from horae.actions.adapters import checkpoints
from horae.adapters.extras import needs_extra
from horae.app import Horae
from horae.attention import Attention
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import encode
from horae.errors import DefinitionError
from horae.ports.adapters import CheckpointFilter, StoredCheckpoint, StoredWrite
from horae.ports.world import World

with needs_extra("langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_serializable_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

DELTAS = "counters_since_delta_snapshot"  # in metadata: channels whose value lies in the writes of ancestors
END_OF_PAGE = object()
_blocked = threading.local()  # ``names``: types that the serialiser has refused during a call of this thread


def _note_blocked(event: SerdeEvent) -> None:
    names: list[str] | None = getattr(_blocked, "names", None)
    if names is not None and event["kind"] in ("msgpack_blocked", "msgpack_method_blocked"):
        names.append(f"{event['module']}.{event['name']}")


register_serde_event_listener(_note_blocked)


class HoraeSaver(BaseCheckpointSaver[str]):
    """Checkpoints in the database of an application or of an agent, on SQLite, PostgreSQL and MariaDB.

    Nothing is pickled, and a row of the database cannot make a process import and call what it names: of classes, those
    that LangGraph holds safe are read back, and those of *types*; another one is an error that names it. A thread grows
    with every step of its graph until it is pruned; :meth:`prune_idle` does so for all threads that have come to rest.
    """

    def __init__(
        self,
        app: Horae | Attention,
        *,
        owner: str | None = None,
        types: Sequence[type] = (),
        serde: SerializerProtocol | None = None,
    ) -> None:
        if _pickles(serde):
            raise DefinitionError("saver_would_pickle")
        strict = JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=list(types) or None)
        super().__init__(serde=serde or strict)
        self._app = app
        self.owner = owner or (app.owner if isinstance(app, Attention) else SYSTEM)

    @property
    def world(self) -> World:
        return self._app.world

    # -- reading -------------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that *config* names, or the newest of its thread."""
        found = checkpoints.get(self.world, self.owner, self._place(config), get_checkpoint_id(config))
        return None if found is None else self._tuple(*found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first; *filter* compares fields of their metadata."""
        left = limit
        for found, writes in checkpoints.walk(self.world, self._wanted(config, before)):
            if left is not None and left <= 0:
                return
            about = json.loads(found.about)
            if all(about.get(name) == value for name, value in (filter or {}).items()):
                left = None if left is None else left - 1
                yield self._tuple(found, writes)

    # -- writing -------------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; return the config that names it."""
        where = config["configurable"]
        about: Mapping[str, Any] = get_serializable_checkpoint_metadata(config, metadata)
        kind, body = self.serde.dumps_typed(checkpoint)
        run_id = about.get("run_id")
        stored = StoredCheckpoint(
            self._place(config), checkpoint["id"], self.owner, str(where["thread_id"]), _namespace(config),
            where.get("checkpoint_id"), None if run_id is None else str(run_id)[:255], kind, body,
            encode(about, "metadata"), self.world.clock.now(),
        )  # fmt: skip
        checkpoints.put(self.world, stored)
        return _config(stored)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a node has written after a checkpoint."""
        place, checkpoint_id = self._place(config), config["configurable"]["checkpoint_id"]
        stored = [
            StoredWrite(
                place, checkpoint_id, task_id, WRITES_IDX_MAP.get(channel, index), task_path, channel,
                *self.serde.dumps_typed(value),
            )
            for index, (channel, value) in enumerate(writes)
        ]  # fmt: skip
        checkpoints.put_writes(self.world, self.owner, stored)

    def delete_thread(self, thread_id: str) -> None:
        """Delete all checkpoints of a thread."""
        checkpoints.delete_thread(self.world, self.owner, str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs have made."""
        checkpoints.delete_runs(self.world, self.owner, [str(each) for each in run_ids])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its checkpoints and writes."""
        checkpoints.copy_thread(self.world, self.owner, str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete threads, or all but the newest checkpoint of each namespace and what that one rests on."""
        names = [str(each) for each in thread_ids]
        checkpoints.prune(self.world, self.owner, names, strategy=strategy, lacks=self._lacks)

    def prune_idle(self, idle_for: timedelta, *, strategy: str = "keep_latest", limit: int = 100) -> int:
        """Prune up to *limit* threads without a new checkpoint for *idle_for*; return how many. For a scheduled job."""
        found = checkpoints.idle_threads(self.world, self.owner, idle_for, limit)
        self.prune(found, strategy=strategy)
        return len(found)

    # -- the same, awaited ---------------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await asyncio.to_thread(next, found, END_OF_PAGE)) is not END_OF_PAGE:
            yield each  # type: ignore[misc]  # not the mark of the end

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    # -- the parts -----------------------------------------------------------------------------------------------

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return versions that sort as text in the order in which they were made."""
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:032}.{self.world.dice.roll():016}"

    def _place(self, config: RunnableConfig) -> str:
        return checkpoints.place_of(self.owner, str(config["configurable"]["thread_id"]), _namespace(config))

    def _wanted(self, config: RunnableConfig | None, before: RunnableConfig | None) -> CheckpointFilter:
        last = None if before is None else get_checkpoint_id(before)
        if config is None:
            return CheckpointFilter(self.owner, before=last)
        named = "checkpoint_ns" in config["configurable"]
        thread = str(config["configurable"]["thread_id"])
        place = self._place(config) if named else None
        return CheckpointFilter(self.owner, thread, place, get_checkpoint_id(config), last)

    def _tuple(self, found: StoredCheckpoint, writes: Sequence[StoredWrite]) -> CheckpointTuple:
        config = _config(found)
        return CheckpointTuple(
            config=config,
            checkpoint=self._load(found.kind, found.body),
            metadata=json.loads(found.about),
            parent_config=None if found.parent_id is None else _config(found, found.parent_id),
            pending_writes=[(each.task_id, each.channel, self._load(each.kind, each.body)) for each in writes],
        )

    def _load(self, kind: str, body: bytes) -> Any:
        """Read a value back; a class that is not allowed is an error, where LangGraph would return its parts."""
        _blocked.names = found = list[str]()
        try:
            value = self.serde.loads_typed((kind, body))
        finally:
            _blocked.names = None
        if found:
            raise DefinitionError("checkpoint_type_refused", type=found[0])
        return value

    def _lacks(self, found: StoredCheckpoint, missing: frozenset[str]) -> frozenset[str]:
        wanted = missing or frozenset(json.loads(found.about).get(DELTAS) or {})
        if not wanted:
            return wanted
        values = self._load(found.kind, found.body)["channel_values"]
        return wanted - frozenset(values)


def _pickles(serde: Any) -> bool:
    return serde is not None and (
        getattr(serde, "pickle_fallback", False) is True or _pickles(getattr(serde, "serde", None))
    )


def _namespace(config: RunnableConfig) -> str:
    return str(config["configurable"].get("checkpoint_ns", ""))


def _config(found: StoredCheckpoint, checkpoint_id: str | None = None) -> RunnableConfig:
    where = {
        "thread_id": found.thread_id,
        "checkpoint_ns": found.namespace,
        "checkpoint_id": checkpoint_id or found.checkpoint_id,
    }
    return {"configurable": where}
