"""Claims of queues that are shared fairly: which owners have due work, whose turn it is, and their jobs.

Nothing is written for it. Each process keeps the turns of its own claims in memory and divides each of them by the
owners' weights, so that all claims together are divided so as well; a process that ends takes nothing with it. Owners
are found in three ways, each of which reads a bounded number of rows (docs/decisions/0123-fair-shares.md):

- a ring: some owners with waiting jobs, along the index of tenants' jobs, from where the last claim stopped;
- the jobs that came due last, so that an owner that has just come is seen at once among thousands of others;
- where that index leaves out the house's own jobs, a walk along the due jobs, from where the last claim stopped.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import attrgetter, itemgetter
from typing import Any

from horae.core.jobs.job import SYSTEM, Job, Order
from horae.core.jobs.turns import Turns
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.jobs.claimed import COLUMNS
from horae.stores.tables.jobs import JOBS

BANDS = (0, 1, 2)
MOST_OWNERS = 25  # that a claim looks at before it looks at any of them twice
NEWEST = 8  # jobs of each band that came due last
SAMPLE = 12  # jobs at the head of each band
HEAD = (-(2**63), 0)
SHORT_WALK = 16
MOST_HOUSE = 1000  # waiting jobs of the house that are kept in mind
SELDOM = 8  # looks between two turns of owners that are not at a mixed head
THOROUGH = 4  # looks at a mixed queue between two that are not for the newest jobs alone
LARGE = 50  # claims from this size on look for owners every second time
WEIGHTS_LAST = 5_000_000  # microseconds
SPARE = 12  # rows of an owner that may be read in vain
FEW = 4  # selects in one statement that may as well ask for all columns
RING, NEW, FIRST, WALK = range(4)
ID, OWNER, RUN_AT, BAND = map(COLUMNS.index, ("id", "owner", "run_at", "band"))
OWNER_OF = itemgetter(OWNER)
WAITING = "state = 'queued' AND held = ''"
WEIGHTS = "SELECT owner, weight FROM horae_owners WHERE weight <> 1"
Row = tuple[Any, ...]
Place = tuple[int, int]


def turn_size(limit: int) -> int:
    """Return how many jobs a turn is in a claim: more in a large one, because each owner costs a look."""
    return -(-limit // MOST_OWNERS)


def first_part(limit: int) -> int:
    """Return how much of a claim is for the owners whose turn it is, where the rest is taken from a mixed head."""
    return max(1, limit // 8)


class QueueTurns:
    """What this process knows about one queue: the turns, and where its looks stopped."""

    def __init__(self, walks: bool) -> None:
        self.lock = threading.Lock()
        self.walks = walks  # jobs of the house are found by a walk
        self.turns = Turns()
        self.weighed_at: int | None = None
        self.ring = ""
        self.walk: list[Place] = [HEAD] * len(BANDS)
        self.has_house = False
        self.is_mixed = False
        self.is_fresh = False  # this claim has looked
        self.turns_first = False  # before it takes what is at a mixed head
        self._looks = 0
        self._looked_at = -1
        self._highest = -1  # number of a job that a look has seen
        self.house: dict[int, Place] = {}  # waiting jobs of the house: band and due time by number

    def see(self, rows: Sequence[Row], ring: int, walk: int, limit: int, now: int) -> None:
        """Take in what a thorough look has found: kind, owner, band, due time and number of each row."""
        kinds: dict[int, list[Row]] = {RING: [], NEW: [], FIRST: [], WALK: []}
        for row in rows:
            kinds[row[0]].append(row)
        for band in BANDS if walk else ():
            walked = [row for row in kinds[WALK] if row[2] == band]
            self.walk[band] = walked[-1][3:5] if len(walked) == walk else HEAD
        self._see_house(kinds[WALK])
        self.see_newest(kinds[NEW], limit, now)
        self.turns.add(row[1] for row in kinds[WALK])
        self.see_owners([row[1] for row in kinds[RING]], ring)
        first = next((found for band in BANDS if (found := [row[1] for row in kinds[FIRST] if row[2] == band])), [])
        admitted = sum(self.turns.admit(first, turn_size(limit)))
        self.is_mixed = limit > 1 and 2 * min(admitted, len(set(first))) > len(first)

    def see_newest(self, newest: Sequence[Row], limit: int, now: int) -> None:
        """Take in the jobs that came due last."""
        self._see_house(newest)
        self._looks += 1
        self.turns_first = limit < LARGE or self._looks % SELDOM == 0 or self._has_newcomer(newest)
        self._looked_at = now
        self._highest = max([self._highest, *(row[4] for row in newest)])
        self.turns.add_first(dict.fromkeys(row[1] for row in newest), limit)

    def _see_house(self, rows: Sequence[Row]) -> None:
        for _, owner, band, run_at, number in rows:
            if self.walks and owner == SYSTEM and len(self.house) < MOST_HOUSE:
                self.house[number] = (band, run_at)
        self.has_house = bool(self.house)

    @property
    def is_brief(self) -> bool:
        """Whether the next look may be for the newest jobs alone: the head was mixed, so that all are served by it."""
        return self.is_mixed and self.ring != "" and self._looks % THOROUGH != 0

    def _has_newcomer(self, newest: Sequence[Row]) -> bool:
        """Say whether an owner without a turn has a job that came due, or was stored, since the last look."""
        return any(
            (run_at > self._looked_at or number > self._highest) and owner not in self.turns
            for _, owner, _, run_at, number in newest
        )

    def share(self, room: int, size: int) -> dict[str, int]:
        with self.lock:
            return self.turns.share(room, size)

    def forget_owners(self) -> None:
        """Let no owner wait any more: the queue has no due job left."""
        with self.lock:
            self.turns.forget_owners()

    def see_owners(self, owners: Sequence[str], asked: int) -> None:
        """Take in the next owners of the ring; fewer than were asked for are its last ones."""
        self.ring = owners[-1] if len(owners) == asked else ""
        self.turns.add(owners)

    def admit(self, rows: Sequence[Row], size: int) -> list[Row]:
        """Return those jobs at the head of the queue that may be taken out of turn."""
        with self.lock:
            if self.turns.admits_all(map(OWNER_OF, rows), size):
                return list(rows)
            admitted = self.turns.admit(map(OWNER_OF, rows), size)
        return list(compress(rows, admitted))

    def charge(self, given: Mapping[str, int], found: Sequence[Row], taken: Sequence[Row]) -> None:
        """Charge owners for what was taken, in turn where they were *given* something."""
        with self.lock:
            counts = Counter(map(OWNER_OF, taken))
            if given:
                self.turns.charge(given, Counter(map(OWNER_OF, found)), counts)
            else:
                self._charge_more(counts)

    def charge_jobs(self, given: Mapping[str, int], taken: Sequence[Job], special: bool) -> None:
        """Charge owners for claimed jobs; after a *special* claim others of theirs may be left."""
        with self.lock:
            counts = Counter(map(attrgetter("owner"), taken))
            if given:
                self.turns.charge(given, given if special else counts, counts)
            else:
                self._charge_more(counts)

    def _charge_more(self, counts: Counter[str]) -> None:
        self.turns.charge_more(counts)
        if counts and 2 * max(counts.values()) > counts.total():  # a flood has come to the head
            self.is_mixed = False

    def next_of_house(self, count: int, order: Order) -> list[int]:
        """Return the next waiting jobs of the house and forget them."""

        def sort_key(number: int) -> tuple[int, ...]:
            band, run_at = self.house[number]
            return (run_at, band, number) if order == "run_at" else (band, run_at, number)

        numbers = sorted(self.house, key=sort_key)[:count]
        for number in numbers:
            del self.house[number]
        return numbers


class Fair:
    """The turns of every fair queue, and the statements; ``driver`` is always inside an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._queues: dict[str, QueueTurns] = {}
        self._walks = dialect.partial_indexes  # the index of tenants' jobs leaves out the house's
        self._tenants = f" AND owner <> '{SYSTEM}'" if dialect.partial_indexes else ""
        self._columns = f"{JOBS.sql(dialect, COLUMNS)}, concurrency_limit"
        self._ring_sql, self._newest_sql, self._look_sql = self._make_looks()

    def of(self, queue: str) -> QueueTurns:
        return self._queues.setdefault(queue, QueueTurns(self._walks))

    def __contains__(self, queue: str) -> bool:
        return queue in self._queues

    def forget(self, queue: str) -> None:
        self._queues.pop(queue, None)

    # -- who has due work ----------------------------------------------------------------------------------------------

    def look(self, driver: Driver, queue: str, limit: int, now: int) -> QueueTurns:
        """Find owners that have due jobs; most are known already, so that large claims look every second time."""
        known = self.of(queue)
        enough = known.is_mixed or not known.ring  # else others may wait beside those that are known
        known.is_fresh = not (known.is_fresh and limit >= LARGE and len(known.turns) > 0 and enough)
        if not known.is_fresh:
            known.turns_first = False
            return known
        if known.weighed_at is None or not 0 <= now - known.weighed_at <= WEIGHTS_LAST:
            known.turns.weights, known.weighed_at = dict(driver.rows(WEIGHTS)), now
        ring = 8 + limit // 32
        walk = (limit if known.has_house else SHORT_WALK) if self._walks else 0
        due = [queue, now] * len(BANDS)
        if known.is_brief:
            rows = driver.rows(self._newest_sql, due)
            with known.lock:
                known.see_newest(rows, limit, now)
            return known
        parameters: list[Any] = [known.ring, ring, *due]
        if walk:
            parameters += [value for band in BANDS for value in (queue, now, *known.walk[band], walk)]
        # Claimed jobs leave dead entries at the head on PostgreSQL; it says nothing where only one owner is known.
        reads_head = len(known.turns) != 1
        rows = driver.rows(self._look_sql[reads_head], [*parameters, *due] if reads_head else parameters)
        with known.lock:
            known.see(rows, ring, walk, limit, now)
            more = -(-limit // turn_size(limit)) - len(known.turns)
        if more > 0 and known.ring and not known.is_mixed:  # else those that are known would take the rest
            rows = driver.rows(self._ring_sql, [known.ring, more])
            with known.lock:
                known.see_owners([row[1] for row in rows], more)
        return known

    def _make_looks(self) -> tuple[str, str, tuple[str, str]]:
        table = f"horae_jobs j{self._dialect.owned_index}"
        nothing = "0, CAST(0 AS {0}), CAST(0 AS {0})".format("SIGNED" if not self._walks else "BIGINT")
        if self._walks:
            step = f"SELECT j.owner FROM {table} WHERE {WAITING} AND j.owner <> '{SYSTEM}' AND j.owner > "
            opening = (
                f"WITH RECURSIVE ring (owner, n) AS (SELECT ({step}%s ORDER BY j.owner, j.queue LIMIT 1), 1 UNION ALL "
                f"SELECT ({step}r.owner ORDER BY j.owner, j.queue LIMIT 1), n + 1 FROM ring r "
                "WHERE r.owner IS NOT NULL AND n < %s) "
            )
            ring = f"SELECT {RING}, owner, {nothing} FROM ring WHERE owner IS NOT NULL"
        else:
            opening = ""
            ring = f"(SELECT {RING}, owner, {nothing} FROM {table} WHERE owner > %s GROUP BY owner LIMIT %s)"
        newest = [self._arm(NEW, band, f" DESC LIMIT {NEWEST}") for band in BANDS]
        walk = [self._arm(WALK, band, " LIMIT %s") for band in BANDS] if self._walks else []
        first = [self._arm(FIRST, band, f" LIMIT {SAMPLE}") for band in BANDS]
        without = opening + " UNION ALL ".join([ring, *newest, *walk])
        return opening + ring, " UNION ALL ".join(newest), (without, " UNION ALL ".join([without, *first]))

    def _arm(self, kind: int, band: int, ending: str) -> str:
        behind = " AND (run_at, id) > (%s, %s)" if kind == WALK else ""
        direction = " DESC" if ending.startswith(" DESC") else ""
        return (
            f"SELECT {kind}, owner, band, run_at, id FROM (SELECT owner, band, run_at, id FROM horae_jobs "
            f"WHERE queue = %s AND {WAITING} AND band = {band} AND run_at <= %s{behind} "
            f"ORDER BY run_at{direction}, id{ending}) x{kind}{band}"
        )

    # -- their jobs ----------------------------------------------------------------------------------------------------

    def read(
        self, driver: Driver, known: QueueTurns, queue: str, given: Mapping[str, int], order: Order, now: int
    ) -> list[Row]:
        """Read up to so many due jobs of each owner, each one's in the order of the queue, the owners in turn."""
        asked, numbers = self.house_of(known, given, order)
        rows = self._by_number(driver, numbers, f"AND queue = %s AND run_at <= %s{self._dialect.locking}", queue, now)
        if asked:
            rows += self._of_owners(driver, queue, asked, order, now)
        of_owner: dict[str, list[Row]] = {owner: [] for owner in given}
        for row in rows:
            of_owner[row[OWNER]].append(row)
        first = (RUN_AT, BAND, ID) if order == "run_at" else (BAND, RUN_AT, ID)
        for found in of_owner.values():
            found.sort(key=itemgetter(*first))
        in_turns = [
            (place / count, row) for owner, count in given.items() for place, row in enumerate(of_owner[owner][:count])
        ]
        return [row for _, row in sorted(in_turns, key=itemgetter(0))]

    def _by_number(self, driver: Driver, numbers: Sequence[int], further: str = "", *parameters: Any) -> list[Row]:
        if not numbers:
            return []
        sql = f"SELECT {self._columns} FROM horae_jobs WHERE id IN ({marks(len(numbers))}) AND {WAITING} {further}"
        return driver.rows(sql, [*numbers, *parameters])

    def _of_owners(self, driver: Driver, queue: str, asked: Mapping[str, int], order: Order, now: int) -> list[Row]:
        if self._dialect.lateral:
            return driver.rows(self._lateral(order), [list(asked), list(asked.values()), *[queue, now] * len(BANDS)])
        if not self._dialect.partial_indexes:
            return self._by_arms(driver, queue, asked, now)
        sizes: dict[int, list[str]] = {}
        largest = max(asked.values())
        for owner, count in asked.items():  # a few rows too many are cheaper than one more statement
            sizes.setdefault(largest if largest - count <= SPARE else count, []).append(owner)
        rows: list[Row] = []
        for count, owners in sizes.items():
            bands = [value for _ in BANDS for value in (queue, now, count)]
            last = [] if order == "run_at" else [count]
            rows += driver.rows(self._joined(order), [json.dumps(owners), *bands, *last])
        return rows

    def _owned(self, band: int, owner: str) -> str:
        return (
            f"FROM horae_jobs WHERE owner = {owner}{self._tenants} AND queue = %s AND {WAITING} AND band = {band} "
            "AND run_at <= %s ORDER BY run_at, id"
        )

    def _joined(self, order: Order) -> str:
        """Read by a join with a list of owners, where no subquery may name a table that stands before it."""
        columns = ", ".join(f"j.{name}" for name in (*COLUMNS, "concurrency_limit"))
        arms = (f"SELECT id FROM (SELECT id {self._owned(band, 'o.value')} LIMIT %s)" for band in BANDS)
        last = "" if order == "run_at" else " LIMIT %s"
        return (
            f"SELECT {columns} FROM json_each(%s) o CROSS JOIN horae_jobs j "
            f"ON j.id IN ({' UNION ALL '.join(arms)}{last})"
        )

    def house_of(self, known: QueueTurns, given: Mapping[str, int], order: Order) -> tuple[dict[str, int], list[int]]:
        """Return what the tenants were given, and the numbers of jobs for what the house was."""
        tenants = dict(given)
        if not (self._walks and SYSTEM in tenants):
            return tenants, []
        with known.lock:
            return tenants, known.next_of_house(tenants.pop(SYSTEM), order)

    def _lateral(self, order: Order) -> str:
        arms = " UNION ALL ".join(
            f"SELECT * FROM (SELECT {self._columns} {self._owned(band, 'o.name')} "
            f"LIMIT o.most{self._dialect.locking}) b{band}"
            for band in BANDS
        )
        last = "" if order == "run_at" else " LIMIT o.most"
        return (
            f"SELECT c.* FROM (SELECT * FROM unnest(%s::text[], %s::int[])) o (name, most) "
            f"CROSS JOIN LATERAL (SELECT * FROM ({arms}) a{last}) c"
        )

    def _by_arms(self, driver: Driver, queue: str, asked: Mapping[str, int], now: int) -> list[Row]:
        """Read by one statement of many selects; first find the bands that an owner has, because each select costs."""
        force = self._dialect.owned_index
        sql = (
            f"SELECT owner, band FROM horae_jobs{force} WHERE owner IN ({marks(len(asked))}) AND queue = %s "
            "GROUP BY owner, queue, band"
        )
        present = driver.rows(sql, [*asked, queue])
        columns = self._columns if len(present) <= FEW else "id"
        arms, parameters = [], list[Any]()
        for owner, band in present:
            arms.append(
                f"(SELECT {columns} FROM horae_jobs{force} WHERE owner = %s AND queue = %s AND {WAITING} "
                f"AND band = %s AND run_at <= %s ORDER BY run_at, id LIMIT {asked[owner]:d}{self._dialect.locking})"
            )
            parameters += [owner, queue, band, now]
        rows = driver.rows(" UNION ALL ".join(arms), parameters) if arms else []
        return rows if len(present) <= FEW else self._by_number(driver, [row[0] for row in rows])
