"""Read a crontab file: lines of five fields (or a nickname) and a command, and settings that hold from there on.

The meaning of Debian's and cronie's cron is kept: with day and weekday both restricted one suffices, unless one of the
fields begins with a star; missed runs are not made up for; runs may overlap.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any

from horae.cli.imports.entries import Entry, NotBrought, cron_timing, key_from
from horae.core.dataclass import dataclass
from horae.core.schedules.notes import Note
from horae.errors import InvalidInput

SETTING = re.compile(r"""\s*(?:"(\w+)"|'(\w+)'|(\w+))\s*=\s*(.*?)\s*""")
BASIC = {"misfire": "skip", "overlap": "allow"}


@dataclass
class _Reader:
    """The settings in force, and how often each command came."""

    zone: str
    zone_notes: list[Note]
    handler: str
    has_user: bool
    settings: dict[str, str] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def entries(self, text: str) -> Iterator[Entry]:
        for number, line in enumerate(text.splitlines(), 1):
            found = line.strip()
            if not found or found.startswith("#"):
                continue
            setting = SETTING.fullmatch(line)
            if setting:
                self._set(setting[1] or setting[2] or setting[3], setting[4])
            else:
                yield self._entry(f"line {number}", found)

    def _set(self, name: str, value: str) -> None:
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if name == "CRON_TZ":
            self.zone, self.zone_notes = value, []
        else:
            self.settings[name] = value

    def _entry(self, origin: str, line: str) -> Entry:
        count = 1 if line.startswith("@") else 5
        fields, user, command = _split(line, count, self.has_user)
        key = self._key(command)
        try:
            if not command:
                raise NotBrought("line_unreadable")
            timing, notes = self._timing(fields, command)
        except NotBrought as problem:
            return Entry(origin, key, refusal=problem.note)
        except InvalidInput as problem:
            return Entry(origin, key, refusal=Note("refused", {"problem": problem}))
        if user:
            notes.append(Note("user", {"user": user}))
        return Entry(origin, key, timing, tuple(notes))

    def _timing(self, fields: str, command: str) -> tuple[dict[str, Any], list[Note]]:
        if fields.lower() == "@reboot":
            raise NotBrought("reboot")
        match = day_match(fields)
        rule, dialect = cron_timing(fields, self.zone, match)
        payload, notes = self._payload(command)
        days = [Note("day_or")] if match == "or" else []
        kept = [Note("missed_skip"), Note("overlap_allow")]
        timing = {**rule, **BASIC, "handler": self.handler, "payload": payload}
        return timing, [*self.zone_notes, *days, *dialect, *kept, Note("command", {"handler": self.handler}), *notes]

    def _payload(self, command: str) -> tuple[dict[str, Any], list[Note]]:
        command, stdin = _at_percent(command)
        environment = {name: value for name, value in self.settings.items() if name != "MAILTO"}
        payload: dict[str, Any] = {"command": command}
        notes = []
        if environment:
            payload["environment"] = environment
            notes.append(Note("environment", {"names": ", ".join(environment)}))
        if stdin is not None:
            payload["input"] = stdin
            notes.append(Note("input"))
        if self.settings.get("MAILTO"):
            notes.append(Note("mail", {"address": self.settings["MAILTO"]}))
        return payload, notes

    def _key(self, command: str) -> str:
        """Name an entry by its program and a digest of the whole command, so that another time is a change of it.

        The rest of the command is not shown: it may hold a password. The second entry of a command is numbered.
        """
        digest = hashlib.sha256(command.encode()).hexdigest()[:8]
        key = key_from(f"{_program(command)}-{digest}")
        self.seen[key] += 1
        return key if self.seen[key] == 1 else f"{key}-{self.seen[key]}"


def read_crontab(text: str, *, zone: str | None, handler: str, has_user: bool) -> list[Entry]:
    """Return the entries of a crontab; *has_user* says that a user stands before each command, as in /etc/crontab."""
    notes: list[Note] = []
    if zone is None:
        zone = host_zone(os.environ)
        notes = [Note("zone_of_host", {"zone": zone})]
    return list(_Reader(zone, notes, handler, has_user).entries(text))


def host_zone(environment: Mapping[str, str], localtime: Path = Path("/etc/localtime")) -> str:
    """Return the name of this host's zone; UTC where it has none."""
    named = environment.get("TZ", "").removeprefix(":")
    if named and not named.startswith("/"):
        return named
    _, found, name = str(localtime.resolve()).partition("/zoneinfo/")
    return name if found else "UTC"


def day_match(fields: str) -> str:
    """Return how cron joins day and weekday: both must match where one of them begins with a star."""
    columns = fields.split()
    if len(columns) != 5 or "*" in (columns[2][:1], columns[4][:1]):
        return "and"
    return "or"


def _split(line: str, count: int, has_user: bool) -> tuple[str, str, str]:
    """Return the time fields, the user where one is expected, and the command with its own spaces."""
    words = line.split(None, count + has_user)
    fields = " ".join(words[:count])
    user = words[count] if has_user and len(words) > count else ""
    return fields, user, words[count + has_user] if len(words) > count + has_user else ""


def _at_percent(command: str) -> tuple[str, str | None]:
    """Split a command at its first percent sign: the rest is its input, further ones are ends of lines."""
    first, *rest = (each.replace(r"\%", "%") for each in re.split(r"(?<!\\)%", command))
    return first, "\n".join(rest) + "\n" if rest else None


def _program(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    named = next((each for each in words if not re.match(r"\w+=", each)), "command")
    return PurePosixPath(named).name or "command"
