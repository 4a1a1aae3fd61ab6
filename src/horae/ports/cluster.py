"""A cluster of databases: the rows of its map in each of them, and the way to the one that keeps something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.cluster.assignment import Holding
    from horae.core.cluster.messages import Answer, Following, Message, UnsentMessages
    from horae.core.cluster.moves import Attempt, Cargo, Parcel
    from horae.core.cluster.restore import RestorePlan, Settled
    from horae.core.cluster.sent_jobs import SentJob
    from horae.core.cluster.settings import Head, Kind, SharedSetting
    from horae.core.cluster.shard_map import Member, ShardMap, VshardState
    from horae.core.jobs.job import NewJob
    from horae.ports.jobs import Placed
    from horae.ports.store import Store
    from horae.ports.world import World


@dataclass(frozen=True, slots=True)
class Standing:
    """What a database says of itself: its number in the cluster and the version of its copy of the map.

    A negative number: it was restored from a copy and is held until ``horae cluster restored``.
    """

    number: int
    version: int

    @property
    def is_held(self) -> bool:
        return self.number < 0


class ClusterRows(Protocol):
    """The map of a cluster in one of its databases."""

    def standing(self) -> Standing | None:
        """Return what this database is in a cluster; None: it is in none."""

    def read_map(self) -> ShardMap | None: ...
    def join(self, shard_map: ShardMap, number: int) -> None:
        """Make this database a member: its copy of the map, its number, and sequences that begin there."""

    def replace_map(self, shard_map: ShardMap, *, expected: int) -> bool:
        """Write a new version where the copy still has the version *expected*; return whether that was so.

        In the first database this decides which of two changes wins.
        """

    def copy_map(self, shard_map: ShardMap) -> bool:
        """Write a version that the first database has decided on, where the copy is older; return whether it was."""

    def mark(self, vshards: Collection[int], state: VshardState) -> None:
        """Lock these virtual shards exclusively and set their state; waits for writers, a bounded time."""

    def marked(self) -> list[int]:
        """Return the virtual shards of this database that are marked as moving."""

    def kept(self, vshards: Collection[int]) -> set[int]:
        """Return those of these virtual shards that this database keeps, by its own copy of the map, and has opened."""

    def is_unused(self) -> bool:
        """Return whether nothing is stored here that belongs to a virtual shard other than the home."""

    def holdings(self) -> list[Holding]:
        """Return the leases by which workers serve this database, also those that have run out."""

    def hold(self, worker: str, held: Sequence[Holding]) -> None:
        """Write the leases of a worker in place of those that it has."""

    def forget_holdings(self, before: datetime) -> None: ...


class ParcelRows(Protocol):
    """Virtual shards on the way from this database to another, or to this one."""

    def expected(self) -> list[Parcel]: ...
    def packed(self) -> list[Parcel]: ...
    def content(self, parcel: Parcel) -> list[tuple[str, str]]:
        """Return the rows of a packed parcel: names of tables, and rows as text."""

    def forward(self, number: int) -> int | None:
        """Return the virtual shard of a job from before the cluster that has left this database; None: it has not."""

    def running(self) -> list[Attempt]:
        """Return the attempts that are under way in this database."""

    def rows_of(self, shard_map: ShardMap) -> Counter[int]:
        """Return about how many rows each virtual shard has here: what tenants have, jobs, and lines of lanes."""

    def expect(self, parcel: Parcel) -> None:
        """Announce a parcel where it goes, before it is packed: its shards open here only with its rows."""

    def unpack(self, parcel: Parcel, content: Sequence[tuple[str, str]]) -> list[int] | None:
        """Write the rows and open the shards; return the numbers of the jobs, None where that was done before."""

    def pack(self, parcel: Parcel, cargo: Cargo, *, version: int) -> int:
        """Close the shards and take their rows out of their tables; return how many rows."""

    def discard(self, parcel: Parcel) -> None:
        """Forget a parcel that was unpacked where it went."""


class MessageRows(Protocol):
    """What this database has to tell others, and what they tell it."""

    def due(self) -> dict[int, datetime]:
        """Return the virtual shards that messages wait for, each with the instant when the first is due."""

    def waiting(self) -> list[UnsentMessages]:
        """Return what waits, by virtual shard."""

    def take(self, vshards: Sequence[int], *, now: datetime, until: datetime, limit: int) -> list[Message]:
        """Return due messages to these virtual shards; no other process takes them before *until*."""

    def forget(self, delivered: Iterable[Message]) -> None:
        """Delete messages that have had their effect; one that was replaced meanwhile stays."""

    def postpone(self, left: Iterable[tuple[Message, datetime]]) -> None:
        """Let messages be tried again from an instant on."""

    def readdress(self, message: Message, vshard: int, now: datetime) -> None:
        """Send a message on to the virtual shard that its receiver, numbered before the cluster, belongs to."""

    def has_unanswered(self) -> bool:
        """Return whether answers are still to be written."""

    def settle_asks(self, *, now: datetime, limit: int) -> int:
        """Write answers that were left to be written; return how many."""

    def find_lost_asks(self) -> int:
        """Mark asks about jobs that have ended, or live again, without an answer: a safety net."""

    def ask_again(self, *, after: tuple[int, int], now: datetime) -> tuple[int, int] | None:
        """Repeat asks that have no final answer, some at once; return where to go on, None at the end."""

    def follow(self, number: int, version: int, followings: Sequence[Following], now: datetime) -> None:
        """Tell the shards of schedules that this one, of that version, follows them, or does no more."""

    def heard_of_followers(self) -> dict[int, int]:
        """Return the latest version that schedules here have heard of each one elsewhere that follows them."""

    def receive(self, message: Message, *, now: datetime, found: Answer | None = None) -> bool:
        """Do what a message says, however often it comes; false where it asks about a job that is not known here.

        *found* answers for such a job: what another database knows of it.
        """

    def find_final(self, number: int) -> Answer | None:
        """Return how a job stands or ended in this database; None where it is not known."""


class SentJobRows(Protocol):
    """Jobs of callers' transactions on the way from this database to another, and to it."""

    def find(self, number: int) -> SentJob | None:
        """Return a job that waits here; None where it does not, because it was delivered or never was."""

    def of_vshard(self, vshard: int | None) -> list[SentJob]:
        """Return the jobs that wait here for a virtual shard; None: for any."""

    def are_there(self) -> bool:
        """Return whether any job waits here."""

    def waiting(self, numbers: Collection[int]) -> set[int]:
        """Return those of these jobs that wait here."""

    def arrived_from(self, source: int, before: datetime, limit: int) -> list[int]:
        """Return some numbers that came from a database before an instant."""

    def forget_arrivals(self, numbers: Collection[int]) -> None:
        """Forget that jobs have arrived, which wait nowhere any more."""


class SettingRows(Protocol):
    """The copies of the house's settings in one database of a cluster."""

    def heads(self) -> dict[tuple[Kind, str], Head]:
        """Return how far each copy has come; without what this database notes about its own shares."""

    def find(self, keys: Collection[tuple[Kind, str]]) -> list[SharedSetting]:
        """Return these settings, by kind and name; those that are not here are left out."""

    def lock(self, kind: Kind, names: Collection[str]) -> dict[str, SharedSetting]:
        """Return settings of a kind by name, and let no other transaction decide about these until this one ends."""

    def put(self, *settings: SharedSetting) -> None:
        """Write copies; the caller has locked them."""


class RestoreRows(Protocol):
    """A database of a cluster that was restored from a copy."""

    def hold(self) -> None:
        """Close this database to all processes until it is settled."""

    def highest(self, number: int) -> dict[str, int]:
        """Return the highest numbers that a database has drawn, as far as rows of this one tell, by table."""

    def remove_same(self, content: Collection[tuple[str, str]]) -> None:
        """Delete the rows that a parcel brings anew."""

    def settle(self, plan: RestorePlan) -> Settled:
        """Make this database fit the others, and open it."""


class Joined(Protocol):
    """The database of a caller's transaction."""

    def draw_vshard(self, roll: float) -> int:
        """Return a virtual shard of this database, by *roll*; any where it keeps none."""

    def insert(self, vshard: int, jobs: Sequence[NewJob], *, now: datetime) -> list[Placed]:
        """Store jobs of one virtual shard: here, where this database keeps it, else they are sent from here."""


class Shards(Protocol):
    """The databases of a cluster, as a process sees them."""

    @property
    def shard_map(self) -> ShardMap:
        """The map as this process knows it; a newer one is read when a database refuses this one."""

    @property
    def number(self) -> int:
        """The number of the database that this process was started with."""

    @property
    def token_hints(self) -> MutableMapping[str, int]:
        """Databases that had tokens from before the cluster, by id, when this process last asked them."""

    @property
    def silences(self) -> MutableMapping[int, tuple[float, Exception]]:
        """Databases that lately kept this process waiting for nothing: until when to spare them, and the error."""

    def bind(self, world: World, vshard: int) -> World:
        """Return the world of one virtual shard: its store follows the shard from database to database."""

    def whole(self, world: World, number: int) -> World:
        """Return the plain world of a database; of the opened one where the cluster does not know the number."""

    def worlds(self, world: World) -> Sequence[tuple[Member, World]]:
        """Return a plain world for each database that keeps something, by number."""

    def opened(self, world: World) -> World:
        """Return the plain world of the database that this process was started with."""

    def further(self, world: World) -> Callable[[], list[World]]:
        """Return what finds the plain worlds of the other databases that keep something, or did: those that it has
        not returned yet and that answer. It reads the map again.
        """

    def store_of(self, number: int) -> Store:
        """Return the store of a database, opened on first use."""

    def join(self, connection: Any) -> Joined:
        """Return the member of this cluster that a caller's transaction is in; refuse any other database."""

    def forward(self, id: str | None) -> int | None:  # noqa: A002  # the public name of the field
        """Return the virtual shard of a job from before the cluster that has left the first database; else None."""

    def refresh(self) -> ShardMap:
        """Read the map again."""
