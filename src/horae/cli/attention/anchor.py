"""``horae attention anchor``: sign the head of a journal, and check a signed head that was kept elsewhere.

A hash chain proves that no line was changed, unless the whole chain was written anew. A head that is signed and kept
outside the database shows that too: the line that it names must still have that hash.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.attention.values import JournalEntry
from horae.cli.failures import Exit
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.time.instants import iso
from horae.errors import InvalidInput, MissingExtra, NotFound

if TYPE_CHECKING:
    from horae.cli.verbs import Verbs

FORMAT, VERSION = "horae.journal.head", 1
NEWEST = 1000  # lines among which the last sealed one is looked for
Document = dict[str, Any]


def register(group: typer.Typer) -> None:
    examples = (
        "horae attention anchor --key head.key",
        "horae attention anchor --check head.json --public-key head.pub",
    )
    command(group, "anchor", by_url=True, examples=examples)(anchor)


def anchor(
    terminal: Terminal,
    key: Annotated[str | None, typer.Option("--key", metavar="FILE", help="Private Ed25519 key in PEM.")] = None,
    check: Annotated[str | None, typer.Option("--check", metavar="FILE", help="A signed head to check.")] = None,
    public_key: Annotated[
        str | None, typer.Option("--public-key", metavar="FILE", help="Public Ed25519 key in PEM, for --check.")
    ] = None,
    lane: Annotated[
        str | None, typer.Option("--lane", metavar="NAME", help="The agent's lane; else the only one.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Whose lane it is.")] = None,
) -> None:
    """Sign the head of a journal, or check one.

    Prints the last sealed line and its hash, signed; keep it where the database is not. With --check it tells whether
    the signature holds and the journal still contains that line; a complaint is exit code 6.
    """
    from horae.cli.attention.attention import resolve_lane

    if (key is None) == (check is None) or (check is not None) != (public_key is not None):
        raise InvalidInput("anchor_key_or_check")
    with reached(terminal) as here:
        name, owned_by = resolve_lane(here, lane, owner)
        if key is not None:
            terminal.result(document := _sign(here, name, owned_by, key), json.dumps(document, indent=2))
            return
        found = _complaints(here, name, owned_by, str(check), str(public_key))
    text = "\n".join(found) or f"{check} holds: the journal of {name} still contains it"
    terminal.result({"lane": name, "sound": not found, "complaints": found}, text)
    if found:
        raise typer.Exit(Exit.FINDINGS)


def _sign(here: Verbs, lane: str, owner: str | None, key: str) -> Document:
    seen = here.attention.get(lane, owner=owner, limit=1).lane
    newest = here.attention.journal(lane, since=max(0, seen.seq - NEWEST), owner=owner).page(limit=NEWEST)
    last = next((each for each in reversed(newest.items) if each.hash is not None), None)
    if last is None:
        raise NotFound("anchor_nothing_sealed", lane=lane)
    document: Document = {
        "format": FORMAT, "version": VERSION, "lane": lane, "owner": seen.owner, "seq": last.seq, "hash": last.hash,
        "written_at": iso(last.at), "signed_at": iso(here.now()),
    }  # fmt: skip
    signature: bytes = _load(key, "private").sign(_signed_text(document))
    return {**document, "signature": base64.b64encode(signature).decode()}


def _complaints(here: Verbs, lane: str, owner: str | None, path: str, public_key: str) -> list[str]:
    """List what is wrong: with the file, with the line that it names, with the journal as a whole."""
    document = _read(path)
    found = [] if _is_signed(document, public_key) else ["the signature is not of this key, or the file was changed"]
    if document.get("lane") != lane:
        return [*found, f"the head is of lane {document.get('lane')!r}, not of {lane!r}"]
    seq = int(document["seq"])
    there: list[JournalEntry] = list(here.attention.journal(lane, since=seq - 1, limit=1, owner=owner))
    if not there or there[0].seq != seq:
        found.append(f"the journal ends before line {seq}")
    elif there[0].hash != document["hash"]:
        found.append(f"line {seq} is not the one that was signed")
    return found + list(here.attention.verify(lane, owner=owner).complaints)


def _signed_text(document: Document) -> bytes:
    body = {name: value for name, value in document.items() if name != "signature"}
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _is_signed(document: Document, public_key: str) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        _load(public_key, "public").verify(base64.b64decode(str(document.get("signature"))), _signed_text(document))
    except (InvalidSignature, ValueError):
        return False
    return True


def _read(path: str) -> Document:
    try:
        document = json.loads(Path(path).read_text())
    except (OSError, ValueError) as problem:
        raise InvalidInput("anchor_unreadable", path=path) from problem
    if not isinstance(document, dict) or document.get("format") != FORMAT or not isinstance(document.get("seq"), int):
        raise InvalidInput("anchor_unreadable", path=path)
    return document


def _load(path: str, which: str) -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError as missing:
        raise MissingExtra("secrets_extra_missing", module=missing.name) from missing
    try:
        text = Path(path).read_bytes()
        loaded: object = (
            serialization.load_pem_private_key(text, None)
            if which == "private"
            else serialization.load_pem_public_key(text)
        )
    except (OSError, ValueError, TypeError) as problem:
        raise InvalidInput("anchor_key_unreadable", path=path, which=which) from problem
    if not isinstance(loaded, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        raise InvalidInput("anchor_key_unreadable", path=path, which=which)
    return loaded
