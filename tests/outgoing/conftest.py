"""The Lab with the two built-in handlers: virtual time, real calls to loopback."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from horae.app import Horae
from horae.core.outgoing.targets import Rules
from horae.outgoing import Calls, MemoryKeyring, Outgoing, Registered, register
from horae.testing import Lab
from tests.outgoing.ground import HookServer, Names


@dataclass
class Story:
    """One application that calls out, under virtual time."""

    lab: Lab
    jobs: Registered
    keyring: MemoryKeyring

    async def send(self, server: HookServer | str | dict[str, str], owner: str = "alice", **payload: Any) -> str:
        """Enqueue a webhook and run what is due; the job's id."""
        url = server.url if isinstance(server, HookServer) else server
        job = self.jobs.webhook.using(owner=owner).enqueue(url=url, **payload)
        await self.lab.settle()
        return job.id

    def ended(self, job: str) -> tuple[str, str, Any]:
        """State, last error and result of a job."""
        found = self.lab.job(job)
        return found.state, found.last_error or "", found.result


Telling = Callable[..., AbstractAsyncContextManager[Story]]


@pytest.fixture
def telling() -> Telling:
    @asynccontextmanager
    async def tell(
        server: HookServer | None = None, environment: dict[str, str] | None = None, **given: Any
    ) -> AsyncIterator[Story]:
        keyring = MemoryKeyring()
        given.setdefault("calls", Calls(resolve=Names()))
        given.setdefault("keyring", keyring)
        given.setdefault("rules_for", lambda owner: Rules() if server is None else server.rules)
        app = Horae("sqlite://", name="outgoing")
        jobs = register(app, Outgoing.read(environment or {}, **given))
        async with Lab(app) as lab:
            yield Story(lab, jobs, keyring)

    return tell
