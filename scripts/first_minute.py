"""Time what a newcomer waits for: ``python -m scripts.first_minute``.

From an empty folder with Python alone: a virtual environment, ``pip install`` of this wheel and what it needs, ``horae
up``, the link that it prints, and the first job that the console shows as succeeded. Then, in a real Chromium, how long
it takes until a job that is enqueued stands in a list that is being watched. Prints seconds; nothing is asserted.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.meter import percentile
from horae.client import Client
from tests.support.browsing import chromium

LIMIT = 120.0  # seconds for any one step
TIMES = 20  # that a change is watched


def main() -> None:
    parser = ArgumentParser(description="Time what a newcomer waits for.")
    parser.add_argument("--times", type=int, default=TIMES, help=f"how many changes are watched; default {TIMES}")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place, began = Path(folder), time.monotonic()
        wheel = build(place)  # not the newcomer's: it comes from the package index
        began = say("the wheel is built (not counted)", time.monotonic(), began)
        start = began
        run(sys.executable, "-m", "venv", str(place / "venv"))
        began = say("a virtual environment", time.monotonic(), began)
        run(str(place / "venv/bin/pip"), "install", "--quiet", f"{wheel}[server]")
        began = say("pip install horae[server]", time.monotonic(), began)
        with up(place) as (link, token):
            began = say("horae up prints its link", time.monotonic(), began)
            wait_for(lambda: succeeded(link))
            say("the console shows a job that succeeded", time.monotonic(), began)
            print(f"{time.monotonic() - start:7.1f} s  all of it, from an empty folder")
            watch(link.partition("/console")[0], token, asked.times)


def say(what: str, now: float, began: float) -> float:
    print(f"{now - began:7.1f} s  {what}", flush=True)
    return now


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def build(place: Path) -> str:
    here = Path(__file__).parents[1]
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(here))
    return str(next(place.glob("horae*.whl")))


@contextmanager
def up(place: Path) -> Iterator[tuple[str, str]]:
    """Start ``horae up``; yield the link that logs in and the token that it prints."""
    log = place / "up.log"
    with log.open("w") as file:
        command = [str(place / "venv/bin/horae"), "up", "--port", "0"]
        server = subprocess.Popen(command, cwd=place, stdout=file, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: "Bearer " in log.read_text())
            said = log.read_text()
            yield re.findall(r"http\S+login\?code=\S+", said)[0], re.findall(r"Bearer ([^\"]+)", said)[0]
        finally:
            server.terminate()
            server.wait(LIMIT)


SESSION = httpx.Client(follow_redirects=True, timeout=LIMIT)


def succeeded(link: str) -> bool:
    if not SESSION.cookies:
        SESSION.get(link)
    return (
        "succeeded" in SESSION.get(link.partition("/login")[0] + "/jobs?q=state:succeeded").text.partition("<tbody")[2]
    )


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > until:
            raise SystemExit(f"nothing within {LIMIT:.0f} s")
        time.sleep(0.05)


def watch(url: str, token: str, times: int) -> None:
    """Print how long a new job takes until it stands in a list that is watched."""
    taken = []
    with Client(url, token=token) as client, chromium() as browser:
        page = browser.new_context().new_page()
        page.goto(f"{url}/console/login")
        page.get_by_label("Access token").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.goto(f"{url}/console/jobs?q=queue:watched")
        page.wait_for_load_state("networkidle")
        for number in range(times):
            began = time.monotonic()
            client.jobs.enqueue("nowhere", {}, queue="watched", tags=[f"n{number}"])
            page.wait_for_function(
                "(n) => document.querySelectorAll('table.jobs tbody tr').length >= n", arg=number + 1
            )
            taken.append(time.monotonic() - began)
    shown = ", ".join(f"{name} {percentile(taken, share):.2f} s" for name, share in (("median", 0.5), ("p95", 0.95)))
    print(f"{max(taken):7.2f} s  the longest of {times} changes until a watched list shows it; {shown}")


if __name__ == "__main__":
    main()
