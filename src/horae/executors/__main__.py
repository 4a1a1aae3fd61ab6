"""Run one remote call as a program: ``python -m horae.executors``.

The document comes from the variable ``HORAE_CALL``, from the file that is named as the first argument, or else from a
line of standard input; an input that ends later ends this process, so that it does not outlive what started it.
Lines, progress and the ending are written to standard output, each as a line that begins with ``horae:``; what the
handler prints stands between them. Exit code 0 means that the handler has returned, 1 that it raised.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from horae.executors.container import ENDING_FILE, PREFIX, short_ending
from horae.executors.remote_side import run_call

writing = threading.Lock()


def report(kind: str, value: Any) -> None:
    with writing:
        sys.__stdout__.write(f"\n{PREFIX}{json.dumps({kind: value})}\n")  # type: ignore[union-attr]  # this program has an output
        sys.__stdout__.flush()  # type: ignore[union-attr]  # this program has an output


def end_with_input() -> None:
    """End with everything that was started from here, once the input ends."""
    sys.stdin.buffer.read()
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(137)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))  # the first process of a pod ignores it
    document = os.environ.pop("HORAE_CALL", "")
    if not document and sys.argv[1:]:
        document = Path(sys.argv[1]).read_text(encoding="utf-8")
    if not document:
        document = sys.stdin.buffer.readline().decode()
        threading.Thread(target=end_with_input, daemon=True).start()
    ending = run_call(document, report)
    sys.stdout.flush()
    report("ending", ending)
    file = os.environ.get(ENDING_FILE)
    if file:
        Path(file).write_text(short_ending(ending), encoding="utf-8")
    return 1 if json.loads(ending)["how"] == "raised" else 0


if __name__ == "__main__":
    sys.exit(main())
