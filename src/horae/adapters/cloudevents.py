"""CloudEvents 1.0: read them from HTTP, post them to an agent, send them by webhooks. Needs no extra."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from horae.attention import Attention
from horae.core.cloud_events import header_value
from horae.core.dataclass import dataclass
from horae.errors import InvalidInput

__all__ = ["CloudEvent", "post_event"]
VERSION = "1.0"
STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
JSON_TYPE = "application/json"
REQUIRED = ("id", "source", "type")
OPTIONAL = ("subject", "time", "datacontenttype", "dataschema")
_EXTENSION = re.compile(r"[a-z0-9]{1,20}")
_IS_JSON = re.compile(r"application/json\b|[^;]+\+json\b|text/json\b")


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """One event. *data* is JSON, or bytes where its type is not JSON."""

    id: str
    source: str
    type: str
    data: Any = None
    subject: str | None = None
    time: datetime | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in REQUIRED:
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InvalidInput("cloudevent_unreadable", problem=f"{name} is missing or not text")
        for name in self.extensions:
            if not _EXTENSION.fullmatch(name) or name in (*REQUIRED, *OPTIONAL, "specversion", "data", "data_base64"):
                raise InvalidInput("cloudevent_unreadable", problem=f"{name!r} is no name of an attribute")

    @classmethod
    def read(cls, headers: Mapping[str, str], body: bytes) -> CloudEvent:
        """Read an event from an HTTP request, in structured or in binary mode."""
        known = {name.lower(): value for name, value in headers.items()}
        content = known.get("content-type", "")
        if content.lower().startswith(STRUCTURED):
            return cls.from_json(_parse(body))
        if "ce-specversion" not in known:
            raise InvalidInput("cloudevent_unreadable", problem=f"neither {STRUCTURED} nor the header ce-specversion")
        found = {name[3:]: unquote(value) for name, value in known.items() if name.startswith("ce-")}
        found |= {"datacontenttype": content} if content else {}
        return _make(found, _data(body, content))

    @classmethod
    def read_batch(cls, headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
        """Read one event or a batch of them."""
        known = {name.lower(): value for name, value in headers.items()}
        if not known.get("content-type", "").lower().startswith(BATCH):
            return [cls.read(headers, body)]
        found = _parse(body)
        if not isinstance(found, list):
            raise InvalidInput("cloudevent_unreadable", problem="a batch is a list")
        return [cls.from_json(each) for each in found]

    @classmethod
    def from_json(cls, value: Any) -> CloudEvent:
        """Read an event in JSON form."""
        if not isinstance(value, dict):
            raise InvalidInput("cloudevent_unreadable", problem="an event is an object")
        found = {name: each for name, each in value.items() if name not in ("data", "data_base64") and each is not None}
        if "data_base64" not in value:
            return _make(found, value.get("data"))
        try:
            return _make(found, base64.b64decode(value["data_base64"], validate=True))
        except (TypeError, binascii.Error):
            raise InvalidInput("cloudevent_unreadable", problem="data_base64 is not base64") from None

    def attributes(self) -> dict[str, str]:
        """Return all attributes as text, without the data."""
        time = {"time": self.time.isoformat().replace("+00:00", "Z")} if self.time else {}
        plain = {name: getattr(self, name) for name in (*REQUIRED, "subject", "datacontenttype", "dataschema")}
        named = {name: value for name, value in plain.items() if value is not None}
        return {"specversion": VERSION, **named, **time, **self.extensions}

    def as_json(self) -> dict[str, Any]:
        """Return it in JSON form."""
        if isinstance(self.data, bytes):
            return {**self.attributes(), "data_base64": base64.b64encode(self.data).decode()}
        return {**self.attributes(), **({} if self.data is None else {"data": self.data})}

    def structured(self) -> tuple[dict[str, str], bytes]:
        """Return headers and body of a request in structured mode."""
        return {"content-type": STRUCTURED}, json.dumps(self.as_json(), ensure_ascii=False).encode()

    def webhook(self, url: str, *, secret: str | None = None) -> dict[str, Any]:
        """Return the arguments of the job ``webhook`` that sends it, in binary mode: signed, retried, dead-lettered.

        ``register(app).webhook.using(key=…).enqueue(**event.webhook(url))``. The data must be JSON.
        """
        if isinstance(self.data, bytes):
            raise InvalidInput("cloudevent_data_not_json")
        named = {name: value for name, value in self.attributes().items() if name != "datacontenttype"}
        headers = {f"ce-{name}": header_value(value) for name, value in named.items()}
        return {"url": url, "body": self.data, "headers": headers, **({} if secret is None else {"secret": secret})}


def post_event(agent: Attention, event: CloudEvent, *, key: str | None = None) -> Any:
    """Post an event to an agent under its type, or under *key*; the same source and id twice is the same event.

    Data that is no object stands under ``data``; bytes stand under ``data_base64``.
    """
    found = event.as_json()
    data = found.get("data", {})
    if "data_base64" in found:
        data = {"data_base64": found["data_base64"]}
    digest = hashlib.sha256(json.dumps([event.source, event.id]).encode()).hexdigest()
    about = {"cloudevent": event.attributes()}
    body = data if isinstance(data, dict) else {"data": data}
    return agent.post(key or event.type, {**about, **body}, event_id=f"ce:{digest}")


def _make(found: Mapping[str, Any], data: Any) -> CloudEvent:
    if found.get("specversion") != VERSION:
        raise InvalidInput("cloudevent_unreadable", problem=f"specversion is not {VERSION}")
    for name, value in found.items():
        if not isinstance(value, str | int | bool):
            raise InvalidInput("cloudevent_unreadable", problem=f"{name} is not text")
    named = {name: found.get(name) for name in (*REQUIRED, *OPTIONAL) if name != "time"}
    rest = {name: _text(value) for name, value in found.items() if name not in (*REQUIRED, *OPTIONAL, "specversion")}
    return CloudEvent(**named, data=data, time=_time(found.get("time")), extensions=rest)  # type: ignore[arg-type]  # CloudEvent checks


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _time(value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidInput("cloudevent_unreadable", problem="time is no instant with an offset")
    return found


def _data(body: bytes, content: str) -> Any:
    if not body:
        return None
    return _parse(body) if not content or _IS_JSON.match(content.lower()) else body


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("cloudevent_unreadable", problem="the body is not JSON") from None
