"""A complete worker over HTTP, with nothing of Horae on its side: pull, renew, run, say how it ended.

    export HORAE_URL=http://127.0.0.1:8600 HORAE_TOKEN=horae_…
    python examples/workers/worker.py --queues scheduler

It takes one job at a time; start several for more. SIGTERM and Ctrl-C let the job at hand end first.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

log = logging.getLogger("worker")
LEASE = float(os.environ.get("HORAE_LEASE", "60"))  # seconds; renewed at a third of it
WAIT = 5.0  # how long a pull may wait for a job, and whoever stops this worker for the pull
PAUSE = 2.0  # when the server does not answer
TRIES = 10  # to tell it how a job ended


# -- what it does: replace these with your own -----------------------------------------------------------------------


def greet(job: dict[str, Any]) -> Any:
    return {"text": f"Hello, {job['payload'].get('name', 'world')}"}


def govern(job: dict[str, Any]) -> Any:
    """Govern an object: look at it, act, and return what was done."""
    return {"object": f"{job['object_type']}/{job['object_id']}", "did": job["action"]}


def explode(job: dict[str, Any]) -> Any:
    raise RuntimeError("it went off")


HANDLERS: dict[str, Callable[[dict[str, Any]], Any]] = {"greet": greet, "govern": govern, "explode": explode}


# -- how it serves ---------------------------------------------------------------------------------------------------


class Worker:
    def __init__(self, url: str, token: str, queues: list[str], worker_id: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(10, read=WAIT + 10))
        self.queues, self.worker_id = queues, worker_id
        self.stopping = threading.Event()

    def stop(self, *_: object) -> None:
        """End after the pull or the job at hand, on a signal. A pull is not broken off: its answer may bring a job."""
        self.stopping.set()

    def serve(self) -> None:
        while not self.stopping.is_set():
            try:
                jobs = self.pull()
            except httpx.HTTPError as problem:
                log.warning("no answer from the server: %s", problem)
                self.stopping.wait(PAUSE)
                continue
            for job in jobs:
                self.run(job)

    def pull(self) -> list[dict[str, Any]]:
        asked = {"worker_id": self.worker_id, "queues": self.queues, "limit": 1, "lease_sec": LEASE, "wait": WAIT}
        answer = self.http.post("/scheduler/jobs/pull", json=asked)
        if answer.status_code in (429, 503):
            self.stopping.wait(float(answer.headers.get("retry-after", PAUSE)))
            return []
        answer.raise_for_status()
        jobs: list[dict[str, Any]] = answer.json()["jobs"]
        return jobs

    def run(self, job: dict[str, Any]) -> None:
        log.info("%s: %s", job["job_id"], job["handler"])
        ended = threading.Event()
        renewer = threading.Thread(target=self.renew, args=(job, ended), daemon=True)
        renewer.start()
        try:
            handler = HANDLERS.get(job["handler"])
            if handler is None:
                raise LookupError(f"this worker has no handler {job['handler']!r}")
            verb, fields = "ack", {"result": handler(job)}
        except Exception as problem:
            log.exception("%s failed", job["job_id"])
            verb, fields = "fail", {"error": f"{type(problem).__name__}: {problem}"}
        finally:
            ended.set()
        self.report(job, verb, fields)

    def renew(self, job: dict[str, Any], ended: threading.Event) -> None:
        """Keep the job while it runs; a handler that can stop early would look at ``cancel_requested`` here."""
        while not ended.wait(LEASE / 3):
            try:
                answer = self.http.post(
                    f"/scheduler/jobs/{job['job_id']}/renew", json={"token": job["token"], "lease_sec": LEASE}
                )
            except httpx.HTTPError as problem:
                log.warning("%s could not be renewed: %s", job["job_id"], problem)
                continue
            if answer.status_code in (404, 409):
                log.warning("%s has been handed on; its result will not count", job["job_id"])
                return

    def report(self, job: dict[str, Any], verb: str, fields: dict[str, Any]) -> None:
        """Report how it ended, again until the service answers: the token makes a repetition harmless."""
        for _ in range(TRIES):
            try:
                body = {**fields, "token": job["token"]}
                answer = self.http.post(f"/scheduler/jobs/{job['job_id']}/{verb}", json=body)
            except httpx.HTTPError as problem:
                log.warning("%s: %s did not arrive: %s", job["job_id"], verb, problem)
            else:
                if answer.status_code < 500 and answer.status_code != 429:
                    log.info("%s: %s %s", job["job_id"], verb, answer.status_code)
                    return
            time.sleep(PAUSE)
        log.error("%s: nobody wants to know; it is tried again when its lease runs out", job["job_id"])


def main() -> None:
    parser = argparse.ArgumentParser(description="A worker over HTTP.")
    parser.add_argument("--queues", default="scheduler", help="names, with commas in between")
    parser.add_argument("--worker-id", default=f"{socket.gethostname()}:{os.getpid()}")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    worker = Worker(os.environ["HORAE_URL"], os.environ["HORAE_TOKEN"], options.queues.split(","), options.worker_id)
    signal.signal(signal.SIGTERM, worker.stop)
    signal.signal(signal.SIGINT, worker.stop)
    log.info("serving %s as %s", options.queues, options.worker_id)
    worker.serve()
    log.info("ended")


if __name__ == "__main__":
    main()
