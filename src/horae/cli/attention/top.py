"""``horae attention top``: a lane on the screen, drawn anew when something happens and while waits run down."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from horae.api.translations import translated
from horae.api.values import to_json
from horae.cli.attention.screen import heading, view_lines
from horae.cli.terminal import Terminal
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from horae.api.attention.values import LaneDetail
    from horae.cli.verbs import Verbs

EVERY = timedelta(seconds=1)  # hints are hints; and a countdown should move
HOME_AND_CLEAR = "\x1b[H\x1b[J"
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # the other screen, without a cursor


def watch(terminal: Terminal, here: Verbs, lane: str, owner: str | None, *, once: bool) -> None:
    """Draw a lane until q or Ctrl-C; once, or a line at each change, where asked."""
    if once:
        view = here.attention.get(lane, owner=owner)
        terminal.result(to_json(view), frame(terminal, view, here.now()))
        return
    if not terminal.is_json and not sys.stdout.isatty():
        raise InvalidInput("screen_missing")
    import asyncio

    with _screen(terminal):
        asyncio.run(_watch(terminal, here, lane, owner))


async def _watch(terminal: Terminal, here: Verbs, lane: str, owner: str | None) -> None:
    import asyncio

    from horae.clock import SystemClock
    from horae.runtime.loop import Alarm

    alarm, keys = Alarm(SystemClock()), list[str]()
    unsubscribe = here.on_hints(alarm.ring_from_elsewhere)
    forget = _listen(keys, alarm.ring)
    last: LaneDetail | None = None
    try:
        while not {"q", "Q", ""} & set(keys):
            view = await asyncio.to_thread(here.attention.get, lane, owner=owner)
            if not terminal.is_json:
                print(HOME_AND_CLEAR + frame(terminal, view, here.now()), end="", flush=True)
            elif last is None or replace(view, at=last.at) != last:
                terminal.event({"event": "changed", **to_json(view)})
            last = view
            await alarm.sleep(None, EVERY)
    except asyncio.CancelledError:  # Ctrl-C is how one leaves
        return
    finally:
        unsubscribe()
        forget()


def _listen(keys: list[str], ring: Callable[[], None]) -> Callable[[], None]:
    """Collect what is typed; return what ends that."""
    import asyncio

    if not sys.stdin.isatty():
        return lambda: None
    loop = asyncio.get_running_loop()

    def typed() -> None:
        keys.append(sys.stdin.read(1))
        ring()

    loop.add_reader(sys.stdin, typed)
    return lambda: _ignore(loop.remove_reader(sys.stdin))


def _ignore(_: object) -> None:
    return None


def frame(terminal: Terminal, view: LaneDetail, now: datetime) -> str:
    """Return one picture: the lane, then FOCUS, STACK, BACKLOG, WAITING, as wide and high as the terminal."""
    import shutil

    size = shutil.get_terminal_size((100, 24))
    view = translated(view, terminal.language)
    lines = view_lines(view, now, min(size.columns, 120) if sys.stdout.isatty() else 100)
    room = size.lines - 3 if sys.stdout.isatty() else len(lines)
    visible = lines if len(lines) <= room else [*lines[: room - 1], f"         … and {len(lines) - room + 1} more"]
    return "\n".join([terminal.bold(heading(view, now)), *visible]) + "\n"


@contextmanager
def _screen(terminal: Terminal) -> Iterator[None]:
    """Take a screen of our own and keys as they are pressed; give both back in the end."""
    if terminal.is_json:
        yield
        return
    with _keys_as_pressed():
        print(ENTER, end="", flush=True)
        try:
            yield
        finally:
            print(LEAVE, end="", flush=True)


@contextmanager
def _keys_as_pressed() -> Iterator[None]:
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
