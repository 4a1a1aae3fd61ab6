"""``horae audit``: verify that the audit was not changed, and export it as a file that proves itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.failures import Exit
from horae.cli.files import STDOUT, open_lines
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from horae.api.audit import Chain, Verification

PROGRESS_EVERY = 50_000  # entries
group = typer.Typer(help="List, verify and export what was written down.", no_args_is_help=True, rich_markup_mode=None)
Owner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's chain.")]


@command(group, "list", by_url=True, examples=("horae audit list --type queue --verb pause",))
def list_(
    terminal: Terminal,
    object_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only about this: queue, job, memory …")
    ] = None,
    object_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Only about the one of this id.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="NAME", help="Only by this actor.")] = None,
    verb: Annotated[str | None, typer.Option("--verb", metavar="VERB", help="Only this act.")] = None,
    owner: Owner = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 50,
) -> None:
    """List accountable acts, newest first."""
    with reached(terminal) as here:
        found = tuple(
            here.audit.list(
                object_type=object_type, object_id=object_id, actor=actor, verb=verb, owner=owner, limit=limit
            )
        )
    rows = [
        (words.exact(it.at), it.actor, it.verb, f"{it.object_type}:{it.object_id}", it.reason or "") for it in found
    ]
    text = terminal.table(("AT", "BY", "WHAT", "ABOUT", "WHY"), rows) if rows else "No entry was found."
    terminal.result(as_list(found), text)


@command(
    group,
    "verify",
    by_url=True,
    examples=("horae audit verify", "horae audit verify --file audit.jsonl --head alice=5f2c…"),
)
def verify(
    terminal: Terminal,
    owner: Owner = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Verify this export alone; nothing else is opened.")
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option("--head", metavar="OWNER=HASH", help="A head kept elsewhere; must still be in its chain."),
    ] = None,
) -> None:
    """Recompute the chains of the audit; name what was touched.

    Changed, removed and moved entries are exit code 6. Workers and servers seal entries in about a minute; what is not
    sealed yet is sealed first. Removing the last entries of a file and rewriting its end is found only with --head.
    In a cluster a chain is called DATABASE:OWNER, and a database that is away is exit code 6 as well.
    """
    from horae.api.audit import parse_heads

    heads = parse_heads(head or ())
    if file is None:
        with reached(terminal) as here:
            result = here.audit.verify(owner=owner, heads=heads)
    else:
        result = _verify_file(terminal, file, owner, heads)
    lines = [f"{_chain_name(each)}: {each.entries} entries, head {each.head}" for each in result.chains]
    lines += [f"{_chain_name(each)}: {line}" for each in result.chains for line in each.complaints]
    lines += [f"{file}: {line}" for line in result.complaints]
    terminal.result(to_json(result), "\n".join(lines) if lines else "No entry has been written yet.")
    for warning in result.warnings:
        terminal.say(f"warning: {warning}")
    if not result.sound:
        raise typer.Exit(Exit.FINDINGS)


@command(
    group,
    "export",
    by_url=True,
    examples=("horae audit export audit.jsonl", "horae audit export alice.jsonl --owner alice"),
)
def export(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where it goes; - is stdout.")],
    owner: Owner = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write the audit to a file that proves itself.

    Lines of JSON: a header, each owner's chain with its entries and its head, and an end. Keep the heads elsewhere:
    with them `horae audit verify --file FILE --head OWNER=HASH` also finds entries removed from the end of a chain.
    In a cluster each database has chains of its own; one that is away is named and is not in the file.
    """
    heads: dict[str, dict[str, Any]] = {}
    entries = 0
    with reached(terminal) as here, open_lines(file, force=force) as write:
        for line in here.audit.export(owner=owner):
            write(line)
            if "hash" in line:
                entries += 1
                if entries % PROGRESS_EVERY == 0:
                    terminal.say(f"exporting: {entries:,} entries")
            elif "chain" in line:
                named = {"database": line["database"]} if "database" in line else {}
                name = ":".join([*named.values(), line["chain"]])
                heads[name] = {"owner": line["chain"], "entries": line["entries"], "head": line["head"], **named}
            elif line.get("incomplete"):
                terminal.notice_missing(line["incomplete"], None)
    if file == STDOUT:
        return
    document = {
        "file": str(file),
        "entries": entries,
        "chains": list(heads.values()),
    }
    lines = [f"{name}: {each['entries']} entries, head {each['head']}" for name, each in heads.items()]
    terminal.result({"export": document}, "\n".join([f"{file}: {entries} entries", *lines]))


def _chain_name(chain: Chain) -> str:
    """Return a chain's name, as --head takes it."""
    return chain.owner if chain.database is None else f"{chain.database}:{chain.owner}"


def _verify_file(terminal: Terminal, file: Path, owner: str | None, heads: Mapping[str, str]) -> Verification:
    from horae.api.audit import verify_export

    for option, value in (("--owner", owner), ("--db", terminal.database)):
        if value is not None:
            raise InvalidInput("export_file_alone", option=option)
    try:
        with file.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
            return verify_export(lines, heads)
    except FileNotFoundError:
        raise NotFound("export_missing", path=str(file)) from None
    except OSError as problem:
        raise InvalidInput("export_unreadable", path=str(file), problem=str(problem.strerror)) from problem
