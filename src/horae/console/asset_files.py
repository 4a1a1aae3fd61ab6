"""Style sheets, scripts and fonts: read once, served under a name that changes with their content.

All files share one version in their path, so that they can refer to each other by relative names. What is asked for
under the current version may be kept for a year; without a version it is asked for again each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
    "ts": "text/plain; charset=utf-8",
}
FOR_EVER = "public, max-age=31536000, immutable"


@cache
def contents() -> dict[str, bytes]:
    """Return every file by its path below ``assets/``; nothing else can be asked for."""
    return dict(_walk(files("horae.console") / "assets", ""))


@cache
def version() -> str:
    """Return a name of all files together."""
    digest = hashlib.sha256()
    for name, content in sorted(contents().items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


async def serve(request: Request) -> Response:
    """Answer with a file; with an old version in the path it is the current file, which is not to be kept."""
    name = request.path_params["name"]
    first, _, rest = name.partition("/")
    is_current = first == version()
    found = contents().get(rest if is_current else name)
    if found is None:
        return Response("Not found.", 404, media_type="text/plain")
    kept = FOR_EVER if is_current else "no-cache"
    etag = f'"{hashlib.sha256(found).hexdigest()[:16]}"'
    headers = {"Cache-Control": kept, "ETag": etag}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(found, headers=headers, media_type=TYPES[name.rpartition(".")[2]])


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{prefix}{each.name}/")
        elif each.name.rpartition(".")[2] in TYPES:
            yield f"{prefix}{each.name}", each.read_bytes()
