"""Write the HTTP API's description, openapi.json, and a digest of each of its parts.

`make docs` writes it to docs/reference/openapi.json. An operation or a model that changes needs a line of the
changelog; `scripts/announcements.py` says which.
"""

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

from horae.errors import StoreUnavailable
from horae.service.asgi import build
from horae.service.documents import operations
from horae.service.options import Options

RELEASED = "released"  # the version inside, so that a release alone changes nothing


def nowhere() -> NoReturn:
    raise StoreUnavailable("Only the description is wanted.")


@cache
def description() -> str:
    """Return the description as text; the same code always gives the same text."""
    document = build(nowhere, Options(version=RELEASED)).openapi()
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def digests(document: dict[str, Any]) -> dict[str, str]:
    """Return a digest for each operation, by its id, and for each model, by its name."""
    return {name: hashlib.sha256(_written(part)).hexdigest()[:16] for name, part in _parts(document)}


def _parts(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, method, operation in operations(document):
        yield operation["operationId"], [path, method, operation]
    yield from document["components"]["schemas"].items()


def _written(part: Any) -> bytes:
    """Return a part as bytes, without descriptions for people."""
    return json.dumps(_without_words(part), sort_keys=True).encode()


def _without_words(part: Any) -> Any:
    if isinstance(part, dict):
        said = {"description", "summary", "examples", "example"}
        return {
            name: _without_words(each)
            for name, each in part.items()
            if name not in said or not isinstance(each, str | list)
        }
    return [_without_words(each) for each in part] if isinstance(part, list) else part
