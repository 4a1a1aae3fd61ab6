"""An application with a relay beside its database, and workers that reach it over NATS only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from horae import Horae
from horae.bus.cluster import ClusterDispatcher
from horae.bus.dispatch import Dispatcher
from horae.runtime.sources.bus_line import BusAddress
from horae.runtime.worker.settings import WorkerSettings
from horae.runtime.worker.worker import Worker

LEASE = timedelta(seconds=3)


def at(url: str, prefix: str) -> BusAddress:
    return BusAddress(url.split(","), prefix, prefix)


@asynccontextmanager
async def relay(app: Horae, url: str, prefix: str, **options: Any) -> AsyncIterator[Dispatcher]:
    """Run a relay over the application's database while the block runs."""
    made = Dispatcher(app.world, "relay-1", at(url, prefix), lease=LEASE, **options)
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        made.stop()
        await asyncio.wait_for(running, 20)


@asynccontextmanager
async def relays(
    app: Horae, url: str, prefix: str, name: str = "relays-1", **options: Any
) -> AsyncIterator[ClusterDispatcher]:
    """Run a process that is the relay of every database of a cluster that it gets, while the block runs."""
    made = ClusterDispatcher(app.world, name, at(url, prefix), lease=LEASE, **options)
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        made.stop()
        await asyncio.wait_for(running, 30)


def far_app(url: str, prefix: str) -> Horae:
    """Return an application without a database, on the bus."""
    made = Horae("sqlite:////nowhere/at/all.db", name="far")
    made.use_bus(url.split(","), prefix=prefix, stream=prefix)
    return made


@asynccontextmanager
async def working(app: Horae, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker while the block runs."""
    settings = {"queues": {"mail": 4}, "grace": timedelta(seconds=5), "lease": timedelta(seconds=6), **options}
    worker = app.worker(WorkerSettings(**settings))
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, 30)
        await asyncio.to_thread(app.close)
