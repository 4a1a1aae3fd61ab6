"""``horae cluster``: make a database the first of several, add others, move shards, see whether all agree."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, actor, command, opened

if TYPE_CHECKING:
    from horae.actions.cluster import ClusterState
    from horae.actions.moves import Moved

group = typer.Typer(help="Spread rows over several databases.", no_args_is_help=True, rich_markup_mode=None)
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        min=0,
        metavar="SECONDS",
        help="Wait so long for running attempts; then they move with their token and lease. 0: at once.",
    ),
]
WAIT = 60.0  # seconds; most attempts end within it, and then no worker has to follow one to another database
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name for the database: lower-case letters, digits, - _.")]


@command(group, "init", examples=("horae cluster init first",))
def init(terminal: Terminal, name: Name = "first", reason: Reason = "") -> None:
    """Make this database the first of a cluster; its rows stay.

    Start running processes anew afterwards: what was started before is refused from now on.
    """
    from horae.actions import cluster
    from horae.stores.cluster.addresses import public_address

    url = terminal.settings.database_url
    with opened(terminal, may_create=True, in_cluster=False) as world:
        cluster.init(world, name=name, address=public_address(url, url), actor=actor(terminal), reason=reason)
    with opened(terminal) as world:
        _print(terminal, cluster.look(world))


@command(
    group,
    "add",
    examples=(
        "horae cluster add second postgresql://horae@db2/horae",
        "horae cluster add shop postgresql://shop@db3/shop --no-shards",
    ),
)
def add(
    terminal: Terminal,
    name: Name,
    database: Annotated[str, typer.Argument(metavar="URL", help="An empty database with current tables.")],
    no_shards: Annotated[
        bool, typer.Option("--no-shards", help="It never keeps shards: for transactions of your own there.")
    ] = False,
    reason: Reason = "",
) -> None:
    """Add an empty database. While nothing is stored yet it gets its share at once.

    With --no-shards it is one of your own, whose transactions enqueue jobs; they are delivered to the others.

    A password in the URL is used now and not stored. Where host, port or user differ from those of the first database,
    workers and servers need the URL in HORAE_CLUSTER_URLS. Repeat it where it was interrupted.
    """
    from horae.actions import cluster
    from horae.stores.cluster.addresses import public_address

    address = public_address(database, terminal.settings.database_url)
    with opened(terminal) as world, opened(terminal, may_create=True, url=database, in_cluster=False) as joining:
        state = cluster.add(
            world,
            joining,
            name=name,
            address=address,
            takes_shards=not no_shards,
            actor=actor(terminal),
            reason=reason,
        )
        _print(terminal, state)


@command(group, "list")
def show(terminal: Terminal) -> None:
    """List the databases, what each keeps, and the version of its map."""
    from horae.actions import cluster

    with opened(terminal) as world:
        _print(terminal, cluster.look(world))


@command(group, "move", examples=("horae cluster move --vshards 17-40 --to second", "horae cluster move --even"))
def move(
    terminal: Terminal,
    vshards: Annotated[str, typer.Option("--vshards", metavar="LIST", help="Which: 17-40,99.")] = "",
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="The database that is to keep them.")] = "",
    even: Annotated[bool, typer.Option("--even", help="Instead: so many that all keep about as many.")] = False,
    wait: Wait = WAIT,
    reason: Reason = "",
) -> None:
    """Move virtual shards to another database while all of them work.

    32 shards go at once, up to 1,024 where they have few rows; writers wait while their rows are on the way. Workers
    must have been started after the database was added. Interrupted, it is finished by the next move or by
    check --repair.
    """
    from horae.actions import moves
    from horae.core.cluster.moves import read_vshards

    if even == bool(vshards or to) or bool(vshards) != bool(to):
        raise typer.BadParameter("give --vshards and --to, or --even")
    given: dict[str, Any] = {"wait": timedelta(seconds=wait), "actor": actor(terminal), "reason": reason}
    with opened(terminal) as world:
        done = moves.move_even(world, **given) if even else moves.move(world, read_vshards(vshards), to, **given)
        _print_moved(terminal, done)


@command(group, "drain", examples=("horae cluster drain second",))
def drain(terminal: Terminal, name: Name, wait: Wait = WAIT, reason: Reason = "") -> None:
    """Move all shards of a database to the others. What ended there stays readable there."""
    from horae.actions import moves

    with opened(terminal) as world:
        waits = timedelta(seconds=wait)
        _print_moved(terminal, moves.drain(world, name, wait=waits, actor=actor(terminal), reason=reason))


@command(group, "check")
def check(
    terminal: Terminal,
    repair: Annotated[
        bool, typer.Option("--repair", help="Update copies of the map, finish moves, ask again.")
    ] = False,
) -> None:
    """Ask each database for its number, map and messages.

    Exit code 1 where number or map is wrong.
    """
    from horae.actions import cluster

    with opened(terminal) as world:
        state = cluster.check(world, repair=repair)
        _print(terminal, state)
    if not state.is_well:
        raise typer.Exit(1)


@command(group, "restored", examples=("horae cluster restored --db postgresql://horae@db2/horae_restored --here",))
def restored(
    terminal: Terminal,
    here: Annotated[bool, typer.Option("--here", help="From now on the map leads to this URL.")] = False,
    reason: Reason = "",
) -> None:
    """Let a database serve again that was restored; --db names it.

    Run it before any process reaches the database: numbers start above all that were given, rows of shards that have
    left are dropped, and the highest version of the map is taken. All databases must answer. Start processes anew.
    """
    from horae.cli.installation import folders

    folders.settle(terminal, here=here, reason=reason)


def _print_moved(terminal: Terminal, done: Moved) -> None:
    text = f"{done.vshards} virtual shards with {done.rows} rows moved"
    if done.unpublished:
        text += f"\n{done.unpublished} events wait there; processes with HORAE_NATS publish them: horae bus status"
    terminal.result({"moved": asdict(done)}, text)


def _print(terminal: Terminal, state: ClusterState) -> None:
    document: dict[str, Any] = {**asdict(state), "well": state.is_well}
    document["members"] = [{**each, "well": known.is_well(state.version)} for each, known in
                           zip(document["members"], state.members, strict=True)]  # fmt: skip
    terminal.result({"cluster": document}, "\n".join(_lines(state)))


def _lines(state: ClusterState) -> list[str]:
    lines = [f"version {state.version} of the map, {len(state.members)} databases"]
    for each in state.members:
        known = f"map {each.version}" if each.version is not None else "no map"
        trouble = each.problem or (f"{each.moving} are being moved" if each.moving else "")
        kept = f"{each.vshards:>5} of 4096" if each.takes_shards else "    no shards"
        line = f"{each.number:>3}  {each.name:<20} {kept}  {known:<10}  {each.address}"
        lines.append(f"{line}\n     {trouble}" if trouble else line)
        for left in each.undelivered:
            what = f"{left.count - left.jobs} messages and {left.jobs} jobs" if left.jobs else f"{left.count} messages"
            lines.append(f"     {what} to {left.to} are not delivered, the oldest for {left.age:.0f} s")
    if state.empty:
        lines.append(f"{', '.join(state.empty)} keeps nothing; horae cluster move --even gives it its share")
    return lines
