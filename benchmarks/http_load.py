"""The load on an HTTP server: kept connections, each with one request under way, and the CPU that this costs here.

``python -m benchmarks.http_load '{"port": …}'`` prints one line of JSON. It speaks as little HTTP as it can, so that
the server is what is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CONNECTIONS = 8
BATCH = 100  # jobs of one claim
SOWN = 1000  # jobs of one enqueue before the pulling


@dataclass
class Connection:
    """One kept connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: str

    async def ask(self, path: str, body: bytes) -> bytes:
        """Send one request; return the body of its answer, which must be a success."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = await self.reader.readexactly(length)
        if not answer.startswith(b"http/1.1 2"):
            raise RuntimeError(f"{path} was answered: {answer[:80]!r} {content[:300]!r}")
        return content


@dataclass
class Load:
    """What is asked of one server."""

    port: int
    token: str
    count: int
    connections: int = CONNECTIONS
    latencies: list[float] = field(default_factory=list)

    async def connect(self) -> list[Connection]:
        opened = [await asyncio.open_connection("127.0.0.1", self.port, limit=2**24) for _ in range(self.connections)]
        return [Connection(reader, writer, self.token) for reader, writer in opened]

    async def enqueue(self) -> None:
        """Store one job after the other on each connection."""
        left = iter(range(self.count))
        await asyncio.gather(*(self._enqueue_on(each, left) for each in await self.connect()))

    async def _enqueue_on(self, connection: Connection, left: Iterator[int]) -> None:
        for number in left:
            body = json.dumps({"handler": "dispatch", "queue": "mail", "payload": {"image": number}}).encode()
            began = time.perf_counter()
            await connection.ask("/jobs", body)
            self.latencies.append(time.perf_counter() - began)

    async def sow(self) -> None:
        """Store the jobs that are pulled then."""
        [connection, *_] = await self.connect()
        job = {"handler": "resize", "queue": "pictures", "payload": {"image": 7}}
        for _ in range(self.count // SOWN):
            await connection.ask("/jobs/batch", json.dumps({"jobs": [job] * SOWN}).encode())

    async def pull(self) -> None:
        """Claim and end all jobs in batches."""
        done = await asyncio.gather(*(self._pull_on(*each) for each in enumerate(await self.connect())))
        if sum(done) < self.count:
            raise RuntimeError(f"{sum(done)} jobs were pulled where {self.count} were sown")
        self.count = sum(done)

    async def _pull_on(self, number: int, connection: Connection) -> int:
        claim = json.dumps({"worker_id": f"load-{number}", "queues": ["pictures"], "limit": BATCH}).encode()
        done = 0
        while jobs := json.loads(await connection.ask("/jobs/claim", claim))["items"]:
            endings = [{"job_id": job["id"], "token": job["token"], "outcome": "succeeded"} for job in jobs]
            settled = json.loads(await connection.ask("/jobs/settle", json.dumps({"endings": endings}).encode()))
            done += sum(each["accepted"] for each in settled["items"])
        return done


def main() -> None:
    asked: dict[str, Any] = json.loads(sys.argv[1])
    work = asked.pop("work")
    load = Load(**asked)
    began, cpu = time.time(), time.process_time()
    asyncio.run(getattr(load, work)())
    report = {"seconds": time.time() - began, "load": time.process_time() - cpu, "latencies": load.latencies}
    report["count"] = load.count
    print(json.dumps(report))


if __name__ == "__main__":
    main()
