"""Server-sent events, line by line."""

from __future__ import annotations


class Events:
    """The events of a stream; it outlives a connection, so that the next one goes on where this one broke."""

    def __init__(self) -> None:
        self._last: str | None = None  # the id of the last event that was whole
        self.begin()

    @property
    def headers(self) -> dict[str, str]:
        """The header that says where to go on."""
        return {} if self._last is None else {"Last-Event-ID": self._last}

    def begin(self) -> None:
        """Begin a new connection; an event that was not complete will be sent again."""
        self._id, self._data = self._last, list[str]()

    def feed(self, line: str) -> str | None:
        """Read a line; return the data of the event that it ends, or None."""
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
