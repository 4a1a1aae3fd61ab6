"""Messages between the databases of a cluster: taken where they wait, received where they go to.

A message is deleted only after its effect is committed there. A process that dies in between leaves it, and it is
delivered again: an ask is kept once for each child and parent, and of two answers the one with the higher version
counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection

from horae.core.cluster.messages import HINT, SUCCEEDED, UNPLACED, Answer, Following, Message, UnsentMessages
from horae.core.cluster.numbers import FIRST_NUMBER
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import instant, micros
from horae.errors import StaleMap
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.driver import CallerDriver, marks
from horae.stores.jobs.asks import Asks, send
from horae.stores.jobs.links import Links
from horae.stores.jobs.needs import Needs

ReceiveJob = Callable[[Message, datetime], None]
CHUNK = 500
RESENT = 1000  # asks that are sent again in one transaction
MESSAGE = "kind, sender, receiver, vshard, version, content, created_at, tries"
OWN = "kind = %s AND sender = %s AND receiver = %s AND version = %s"
# From one virtual shard to the next along the index, however many messages each has.
VSHARDS = (
    "WITH RECURSIVE named(vshard) AS (SELECT min(vshard) FROM horae_messages UNION ALL SELECT (SELECT min(m.vshard) "
    "FROM horae_messages m WHERE m.vshard > named.vshard) FROM named WHERE named.vshard IS NOT NULL) "
    "SELECT vshard, (SELECT min(due_at) FROM horae_messages m WHERE m.vshard = named.vshard) FROM named "
    "WHERE vshard IS NOT NULL"
)
HEARD = (
    "INSERT INTO horae_answers (job_id, parent_id, version, state, handler, result, error, created_at) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (job_id, parent_id) DO UPDATE SET "
    "version = excluded.version, state = excluded.state, handler = excluded.handler, result = excluded.result, "
    "error = excluded.error WHERE horae_answers.version < excluded.version"
)

FOLLOWED = (
    "INSERT INTO horae_followers (followed_id, schedule_id, name, alias, vshard, is_on, asked, version) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (followed_id, schedule_id) DO UPDATE SET "
    "is_on = excluded.is_on, asked = excluded.asked, version = CASE WHEN horae_followers.version > excluded.version "
    "THEN horae_followers.version ELSE excluded.version END WHERE horae_followers.asked <= excluded.asked"
)


class Messages:
    """The messages of one database, inside one transaction."""

    def __init__(self, connection: Connection, woken: set[str], receive_job: ReceiveJob) -> None:
        self._receive_job = receive_job
        self._driver = CallerDriver(connection)
        self._dialect = BY_NAME[connection.dialect.name]
        self._needs = Needs(self._dialect)
        self._woken = woken

    @property
    def _asks(self) -> Asks:
        return self._needs.asks

    # -- where they wait -----------------------------------------------------------------------------------------

    def due(self) -> dict[int, datetime]:
        """Return the virtual shards that messages wait for, each with the instant when the first is due."""
        return {vshard: instant(due) for vshard, due in self._driver.rows(VSHARDS)}

    def waiting(self) -> list[UnsentMessages]:
        """Return what waits, by virtual shard."""
        rows = self._driver.rows(
            "SELECT vshard, count(*), min(created_at), sum(CASE WHEN kind = 'job' THEN 1 ELSE 0 END) "
            "FROM horae_messages GROUP BY vshard"
        )
        return [UnsentMessages(vshard, int(count), instant(oldest), int(jobs)) for vshard, count, oldest, jobs in rows]

    def take(self, vshards: Sequence[int], *, now: datetime, until: datetime, limit: int) -> list[Message]:
        """Return due messages to these virtual shards; no other process takes them before *until*."""
        found: list[Message] = []
        for start in range(0, len(vshards), CHUNK):
            chunk, room = vshards[start : start + CHUNK], limit - len(found)
            if room < 1:
                break
            sql = f"SELECT {MESSAGE} FROM horae_messages WHERE vshard IN ({marks(len(chunk))}) AND due_at <= %s "
            sql += f"ORDER BY due_at LIMIT %s{self._dialect.locking}"
            for row in self._driver.rows(sql, [*chunk, micros(now), room]):
                kind, sender, receiver, vshard, version, content, created_at, tries = row
                found.append(Message(kind, sender, receiver, vshard, version, content, instant(created_at), tries))
        taken = f"UPDATE horae_messages SET due_at = %s WHERE {OWN}"
        self._driver.many(taken, [(micros(until), *_own(each)) for each in found])
        return found

    def forget(self, delivered: Iterable[Message]) -> None:
        """Delete messages that have had their effect; one that was replaced meanwhile stays."""
        self._driver.many(f"DELETE FROM horae_messages WHERE {OWN}", [_own(each) for each in delivered])

    def postpone(self, left: Iterable[tuple[Message, datetime]]) -> None:
        """Let messages be tried again from an instant on."""
        sql = f"UPDATE horae_messages SET due_at = %s, tries = tries + 1 WHERE {OWN}"
        self._driver.many(sql, [(micros(at), *_own(each)) for each, at in left])

    def readdress(self, message: Message, vshard: int, now: datetime) -> None:
        """Send a message on to the virtual shard that its receiver, numbered before the cluster, belongs to."""
        sql = f"UPDATE horae_messages SET vshard = %s, due_at = %s WHERE {OWN}"
        self._driver.change(sql, [vshard, micros(now), *_own(message)])

    def has_unanswered(self) -> bool:
        """Return whether answers are still to be written."""
        return bool(self._driver.rows("SELECT 1 FROM horae_asks WHERE state = 'ended' LIMIT 1"))

    def settle_asks(self, *, now: datetime, limit: int) -> int:
        """Write answers that were left to be written; return how many."""
        return self._asks.settle_left(self._driver, now, limit)

    def find_lost_asks(self) -> int:
        """Mark asks about jobs that have ended, or live again, without an answer: a safety net."""
        return self._asks.find_lost(self._driver)

    def ask_again(self, *, after: tuple[int, int], now: datetime) -> tuple[int, int] | None:
        """Repeat asks that have no final answer, some at once; return where to go on, None at the end.

        For a database that was put back to an earlier day: what it has forgotten, it is told or asked again.
        """
        rows = self._driver.rows(
            "SELECT n.job_id, n.needed_id, coalesce(a.version, 0) FROM horae_needs n LEFT JOIN horae_answers a "
            "ON a.job_id = n.job_id AND a.parent_id = n.needed_id WHERE n.state = 'asked' "
            "AND (n.job_id > %s OR (n.job_id = %s AND n.needed_id > %s)) ORDER BY n.job_id, n.needed_id LIMIT %s",
            [after[0], *after, RESENT],
        )
        for child, parent, known in rows:
            send(self._driver, "ask", child, parent, known, str(known), now)
        if rows:
            self._woken.add(HINT)
        return None if len(rows) < RESENT else (rows[-1][0], rows[-1][1])

    # -- where they go to ----------------------------------------------------------------------------------------

    def receive(self, message: Message, *, now: datetime, found: Answer | None = None) -> bool:
        """Do what a message says, however often it comes; false where it asks about a job that is not known here.

        *found* answers for such a job: what another database knows of it.
        """
        if message.kind == "ask":
            return self._receive_ask(message, now, found)
        if message.kind == "answer":
            self._receive_answer(message, now)
        elif message.kind == "follow":
            self._receive_follow(message)
        elif message.kind == "job":
            self._receive_job(message, now)
        else:
            self._receive_success(message, now)
        return True

    def find_final(self, number: int) -> Answer | None:
        """Return how a job stands or ended in this database; None where it is not known."""
        return self._asks.look_up(self._driver, [number]).get(number)

    def _receive_ask(self, message: Message, now: datetime, found: Answer | None) -> bool:
        child, parent, known = message.sender, message.receiver, int(message.content)
        sql = f"SELECT state FROM horae_jobs WHERE id = %s{self._dialect.waiting_lock}"
        states = [row[0] for row in self._driver.rows(sql, [parent])]
        if states or self._asks.look_up(self._driver, [parent]):
            is_live = bool(states) and states[0] != "dead"
            self._asks.keep(self._driver, child, parent, known, now, is_live=is_live)
        elif message.vshard == UNPLACED and self._has_left(parent):
            raise StaleMap("stale_map", vshard=0, version=0)
        elif found is None:
            return False
        else:
            send(self._driver, "answer", parent, child, known + 1, found.as_text(), now)
        self._woken.add(HINT)
        return True

    def _has_left(self, number: int) -> bool:
        sql = "SELECT 1 FROM horae_forwards WHERE number = %s"
        return number < FIRST_NUMBER and bool(self._driver.rows(sql, [number]))

    def _receive_answer(self, message: Message, now: datetime) -> None:
        child, parent, answer = message.receiver, message.sender, message.answer
        waits = "SELECT 1 FROM horae_needs WHERE job_id = %s AND needed_id = %s"
        lives = "SELECT 1 FROM horae_jobs WHERE id = %s"
        if not self._driver.rows(waits, [child, parent]) and not self._driver.rows(lives, [child]):
            return  # the child has ended, and does not come back for this parent
        values = [child, parent, message.version, answer.state, answer.handler, answer.result, answer.error]
        if self._driver.change(HEARD, [*values, micros(now)]):
            self._woken |= self._needs.hear(self._driver, child, parent, answer.state, now)

    # -- schedules -----------------------------------------------------------------------------------------------

    def follow(self, number: int, version: int, followings: Sequence[Following], now: datetime) -> None:
        """Tell the shards of schedules that this one, of that version, follows them, or does no more."""
        for each in followings:
            sql = "SELECT version FROM horae_answers WHERE job_id = %s AND parent_id = %s"
            known = [row[0] for row in self._driver.rows(sql, [number, each.alias])]
            content = {"key": each.key, "follower": each.follower, "vshard": each.follower_vshard, "on": each.is_on}
            text = json.dumps(content | {"known": max(known, default=0)})
            send(self._driver, "follow", number, each.alias, version, text, now, vshard=each.vshard)
        if followings:
            self._woken.add(HINT)

    def heard_of_followers(self) -> dict[int, int]:
        """Return the latest version that schedules here have heard of each one elsewhere that follows them."""
        rows = self._driver.rows("SELECT schedule_id, max(asked) FROM horae_followers GROUP BY schedule_id")
        return {int(number): int(version) for number, version in rows}

    def _receive_follow(self, message: Message) -> None:
        """Note that a schedule elsewhere follows one here; where that is not there yet, the message is tried again."""
        asked, lock = json.loads(message.content), self._dialect.waiting_lock
        sql = f"SELECT id FROM horae_schedules WHERE schedule_key = %s AND owner = '{SYSTEM}'{lock}"
        found = [row[0] for row in self._driver.rows(sql, [asked["key"]])]
        if not found:
            if asked["on"]:
                raise StaleMap("stale_map", vshard=message.vshard, version=0)
            return
        [followed], follower = found, message.sender
        values = [followed, follower, asked["follower"], message.receiver, asked["vshard"], int(asked["on"])]
        if not self._driver.change(FOLLOWED, [*values, message.version, asked["known"]]):
            return  # something later was heard before
        pair = [-follower, followed]
        self._driver.change("DELETE FROM horae_follows WHERE schedule_id = %s AND followed_id = %s", pair)
        if asked["on"]:
            self._driver.change("INSERT INTO horae_follows (schedule_id, followed_id) VALUES (%s, %s)", pair)

    def _receive_success(self, message: Message, now: datetime) -> None:
        follower, alias = message.receiver, int(message.content)
        own = "WHERE schedule_id = %s AND followed_id = %s"
        if not self._driver.rows(f"SELECT 1 FROM horae_follows {own}", [follower, alias]):
            return  # it follows that one no more
        values = [follower, alias, message.version, SUCCEEDED, None, None, None]
        if self._driver.change(HEARD, [*values, micros(now)]):
            condition = "schedule_id = %s AND followed_id = %s"
            links = Links(self._dialect)
            self._woken |= links.note_success(self._driver, [follower], condition, [follower, alias], now)


def _own(message: Message) -> tuple[str, int, int, int]:
    return message.kind, message.sender, message.receiver, message.version
