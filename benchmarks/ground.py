"""The stage of one run: private servers with fsync on, fresh databases, children that do the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.contenders import CONTENDERS
from tests.support.servers import PostgresServer, ServerMissing, Servers

LIMIT = 900.0  # seconds that one child may take


class Missing(Exception):
    """This cannot be measured here; the text says why."""


@dataclass
class Child:
    """A started contender that waits for the word."""

    process: subprocess.Popen[str]
    missing: str = ""

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        out, _ = self.process.communicate(timeout=LIMIT)
        lines = out.strip().splitlines()
        if self.process.returncode or not lines:
            raise Missing("it failed; see above")
        report: dict[str, Any] = json.loads(lines[-1])
        if "missing" in report:
            raise Missing(report["missing"])
        return report


@dataclass
class Ground:
    durable: bool = True
    servers: Servers = field(default_factory=Servers)
    _postgres: PostgresServer | None = None
    _folder: tempfile.TemporaryDirectory[str] = field(default_factory=lambda: tempfile.TemporaryDirectory("-horae"))
    _files: int = 0

    @property
    def postgres(self) -> PostgresServer:
        if self._postgres is None:
            try:
                self._postgres = self.servers.own(PostgresServer, durable=self.durable)
            except ServerMissing as problem:
                raise Missing(str(problem)) from problem
        return self._postgres

    def database(self, contender: str, *, env: Mapping[str, str] | None = None) -> str:
        """Return a fresh database of the kind this contender uses, with its tables."""
        url = self.postgres.create_database() if CONTENDERS[contender][2] == "postgres" else self.file()
        self.do(contender, url, env=env, work="prepare")
        return url

    def file(self) -> str:
        """Return the URL of a SQLite file that does not exist yet."""
        self._files += 1
        return f"sqlite:///{Path(self._folder.name) / f'{self._files}.db'}"

    def start(self, contender: str, url: str, *, env: Mapping[str, str] | None = None, **asked: Any) -> Child:
        if url.startswith("postgres"):
            asked["server_pid"] = self.postgres.pid
        given = json.dumps({"contender": contender, "url": url, **asked})
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child", given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        if said != "ready":
            process.wait()
            reason = json.loads(said).get("missing", "") if said.startswith("{") else "it failed; see above"
            raise Missing(f"not installed ({reason}); run: make bench")
        return Child(process)

    def do(self, contender: str, url: str, *, env: Mapping[str, str] | None = None, **asked: Any) -> dict[str, Any]:
        return self.together([self.start(contender, url, env=env, **asked)])[0]

    def together(self, children: Sequence[Child]) -> list[dict[str, Any]]:
        for child in children:
            child.go()
        return [child.answer() for child in children]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.servers.close()
        self._folder.cleanup()
