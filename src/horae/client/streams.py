"""Server-sent events, line by line."""

from __future__ import annotations


class Events:
    """What has been heard of a stream; it outlives a connection, so that the next one goes on where this one broke."""

    def __init__(self) -> None:
        self._last: str | None = None  # the id of the last event that was whole
        self.begin()

    @property
    def headers(self) -> dict[str, str]:
        """What tells the service where to go on."""
        return {} if self._last is None else {"Last-Event-ID": self._last}

    def begin(self) -> None:
        """A new connection: whatever was half said will be said again."""
        self._id, self._data = self._last, list[str]()

    def hear(self, line: str) -> str | None:
        """The data of the event that this line ends; None where it ends none."""
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            elif name == "id":
                self._id = value.removeprefix(" ")
            return None
        data, self._last = "\n".join(self._data), self._id
        self.begin()
        return data or None
