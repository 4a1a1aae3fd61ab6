"""Several hosts of one database: find the one that may be written to, and refuse a primary that was replaced.

libpq asks the hosts of a URL one after the other, for every connection, and takes the first that can be written to.
An old primary that came back can be written to as well, and one that swallows packets costs every connection a
timeout. So the hosts are asked all at once, seldom: at the first connection and after a lost one. Of those that can be
written to, the one with the highest timeline is taken, and a lower one than was ever seen is refused
(docs/decisions/0140-failover.md).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from sqlalchemy import Engine

log = logging.getLogger("horae.stores")
ROUND = 0.25  # seconds between two rounds of asking while no host can be written to
# Of the time for connecting: how long to wait for the others once one can be written to.
GRACE = 0.4
WATCH = 10.0  # seconds between two looks at the other hosts, while connections are in use


class Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)
Host = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a host says of itself. A promotion raises the timeline; all copies of one primary share its system."""

    is_writable: bool
    system: str = ""
    timeline: int = 0


class Timelines:
    """The highest timeline that this process has seen of each system. It never falls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._highest: dict[str, int] = {}

    def note(self, standing: Standing) -> None:
        with self._lock:
            if standing.timeline > self.highest(standing.system):
                self._highest[standing.system] = standing.timeline

    def highest(self, system: str) -> int:
        return self._highest.get(system, 0)

    def is_outdated(self, standing: Standing) -> bool:
        return standing.timeline < self.highest(standing.system)


@dataclass
class _Answer(Generic[C]):
    host: Host
    connection: C | None = None
    standing: Standing | None = None
    problem: Exception | None = None

    def close(self) -> None:
        if self.connection is not None:
            with suppress(Exception):
                self.connection.close()


class Hosts(Generic[C]):
    """Connects to the host of a database that may be written to.

    *connect* opens a connection to one host and asks for its standing; *refuse* makes an error of the driver. With one
    host nothing is searched: whether it can be written to is not asked, but a timeline lower than before is refused.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        connect: Callable[[Host], tuple[C, Standing]],
        refuse: Callable[[str], Exception],
        budget: float,
    ) -> None:
        self._hosts = tuple(hosts)
        self._connect = connect
        self._refuse = refuse
        self._budget = budget
        self._searching = threading.Lock()
        self._chosen: Host | None = self._hosts[0] if len(self._hosts) == 1 else None
        self.timelines = Timelines()
        self.searches = 0
        self._failure, self._failed = "", 0
        self._watching = threading.Lock()
        self._system = ""

    def connect(self) -> C:
        """Connect to the chosen host, or search for one within the time for connecting."""
        if len(self._hosts) == 1:
            return self._open(self._hosts[0])
        if (found := self._open_chosen()) is not None:
            return found
        failed = self._failed
        if not self._searching.acquire(timeout=2 * self._budget):
            raise self._refuse("another thread is still searching for the primary")
        try:
            if (found := self._open_chosen()) is not None:
                return found
            if self._failed > failed:  # one search is for all threads that wait, also when it fails
                raise self._refuse(self._failure)
            return self._search()
        finally:
            self._searching.release()

    @property
    def is_several(self) -> bool:
        return len(self._hosts) > 1

    def forget(self, search: int) -> None:
        """Ask all hosts again before the next connection: one was lost, so that another host may have taken over.

        Connections from before the last search say nothing new: after a death a pool finds many of them.
        """
        if search == self.searches and len(self._hosts) > 1:
            self._chosen = None

    # -- an old primary that never died --------------------------------------------------------------------------

    def watch(self) -> None:
        """Ask the other hosts now and then, in a thread of its own, whether one of them was promoted meanwhile.

        An old primary that lives on keeps its connections; once a higher timeline was met they are refused. Called
        whenever a connection is taken: a process that uses none asks no host.
        """
        if len(self._hosts) > 1 and self._chosen is not None and self._watching.acquire(blocking=False):
            threading.Thread(target=self._watch, name="horae-hosts", daemon=True).start()

    def _watch(self) -> None:
        try:
            self._note_others(self._chosen)
        except Exception:
            log.exception("the other hosts of the database could not be asked; asking again")
        finally:
            rest = threading.Timer(WATCH, self._watching.release)
            rest.daemon = True
            rest.start()

    def _note_others(self, chosen: Host | None) -> None:
        asked = _Round(self._connect, [host for host in self._hosts if host is not chosen])
        try:
            answers = asked.collect(self._budget, threading.Event())
        finally:
            asked.end()
        for each in answers:
            each.close()
            if each.standing is None:
                continue
            is_newer = each.standing.timeline > self.timelines.highest(each.standing.system) > 0
            self.timelines.note(each.standing)
            if is_newer and chosen is not None:
                log.error("%s was promoted while %s lives on, which is refused from now on: stop it", named(each.host),
                          named(chosen))  # fmt: skip

    def survey(self) -> dict[str, Standing | None]:
        """Ask every host, within the time for connecting, how it stands; None: it does not answer."""
        answers = self._ask_all(threading.Event())
        for each in answers:
            each.close()
            if each.standing is not None:
                self.timelines.note(each.standing)
        found = {named(each.host): each.standing for each in answers}
        return {name: found.get(name) for name in map(named, self._hosts)}

    def _open_chosen(self) -> C | None:
        chosen, search = self._chosen, self.searches
        if chosen is None:
            return None
        try:
            return self._open(chosen, must_write=True)
        except Exception as problem:
            log.debug("%s is not the primary any more: %s", named(chosen), problem)
            self.forget(search)
            return None

    def _open(self, host: Host, *, must_write: bool = False) -> C:
        connection, standing = self._connect(host)
        self.timelines.note(standing)
        self._note_system(host, standing)
        if self.timelines.is_outdated(standing) or (must_write and not standing.is_writable):
            connection.close()
            raise self._refuse(f"{named(host)} {self._reason(standing)}")
        return connection

    def _note_system(self, host: Host, standing: Standing) -> None:
        """Say when another database answers than before: its timelines are its own, so that none of them is refused."""
        if self._system and standing.system and standing.system != self._system:
            log.warning("%s is another database system than before: restored, upgraded, or the wrong one", named(host))
        self._system = standing.system or self._system

    def _reason(self, standing: Standing) -> str:
        if not self.timelines.is_outdated(standing):
            return "cannot be written to"
        newest = self.timelines.highest(standing.system)
        return f"is an old primary: its timeline is {standing.timeline}, but {newest} has begun elsewhere"

    # -- searching -----------------------------------------------------------------------------------------------

    def _search(self) -> C:
        """Ask all hosts, again and again, until one of them may be written to or the time is over."""
        self.searches += 1
        over = threading.Event()
        timer = threading.Timer(self._budget, over.set)
        timer.daemon = True
        timer.start()
        try:
            while True:
                answers = self._ask_all(over)
                best = self._best(answers)
                for each in answers:
                    if each is not best:
                        each.close()
                if best is not None and best.connection is not None:
                    self._chosen = best.host
                    log.info("the primary is %s", named(best.host))
                    return best.connection
                if over.wait(ROUND):
                    self._failure, self._failed = self._describe(answers), self._failed + 1
                    raise self._refuse(self._failure)
        finally:
            timer.cancel()

    def _ask_all(self, over: threading.Event) -> list[_Answer[C]]:
        """Return the answers of all hosts, without those that are late: a host may swallow what is sent to it."""
        asked: _Round[C] = _Round(self._connect, self._hosts)
        try:
            return asked.collect(self._budget, over)
        finally:
            asked.end()

    def _best(self, answers: Sequence[_Answer[C]]) -> _Answer[C] | None:
        """Return the host of the highest timeline that can be written to; of equals, the first in the URL."""
        for each in answers:
            if each.standing is not None:
                self.timelines.note(each.standing)
        able = [
            (self._hosts.index(each.host), each)
            for each in answers
            if each.standing is not None and each.standing.is_writable and not self.timelines.is_outdated(each.standing)
        ]
        return min(able, key=lambda pair: pair[0])[1] if able else None

    def _describe(self, answers: Sequence[_Answer[C]]) -> str:
        known = {named(each.host): self._say(each) for each in answers}
        return "; ".join(f"{name} {known.get(name, 'does not answer')}" for name in map(named, self._hosts))

    def _say(self, answer: _Answer[C]) -> str:
        if answer.standing is not None:
            return self._reason(answer.standing)
        return " ".join(str(answer.problem).split()) or type(answer.problem).__name__


class _Round(Generic[C]):
    """One question to all hosts at once. A connection that comes after the end is closed."""

    def __init__(self, connect: Callable[[Host], tuple[C, Standing]], hosts: Sequence[Host]) -> None:
        self._connect = connect
        self._hosts = hosts
        self._answers: queue.SimpleQueue[_Answer[C]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._ended = False

    def collect(self, budget: float, over: threading.Event) -> list[_Answer[C]]:
        for host in self._hosts:
            threading.Thread(target=self._ask, args=(host,), name="horae-hosts", daemon=True).start()
        answers: list[_Answer[C]] = []
        left = budget
        while len(answers) < len(self._hosts) and left > 0 and not over.is_set():
            try:
                answers.append(self._answers.get(timeout=ROUND))
            except queue.Empty:
                left -= ROUND
                continue
            standing = answers[-1].standing
            if standing is not None and standing.is_writable:
                left = min(left, budget * GRACE)
        return answers

    def end(self) -> None:
        with self._lock:
            self._ended = True
        with suppress(queue.Empty):
            while True:
                self._answers.get_nowait().close()

    def _ask(self, host: Host) -> None:
        answer: _Answer[C] = _Answer(host)
        try:
            answer.connection, answer.standing = self._connect(host)
        except Exception as problem:
            answer.problem = problem
        with self._lock:
            if not self._ended:
                self._answers.put(answer)
                return
        answer.close()


# The hosts of each engine, once it has connected.
HOSTS: WeakKeyDictionary[Engine, list[Hosts[Any]]] = WeakKeyDictionary()


def survey_hosts(engine: Engine) -> dict[str, Standing | None]:
    """Ask every host that the URL of an engine names how it stands; nothing where it names one, or is not open yet."""
    found = [hosts for hosts in HOSTS.get(engine, ()) if hosts.is_several]
    return found[0].survey() if found else {}


def named(host: Host) -> str:
    return ":".join(str(part) for part in (host.get("host"), host.get("port")) if part)


def split_hosts(parameters: Mapping[str, Any]) -> tuple[Host, ...]:
    """Return the hosts that connection parameters name, with commas between them as in libpq.

    What libpq would refuse, as more ports than hosts, stays one: then libpq says what is wrong.
    """
    names, ports = (str(parameters.get(name) or "").split(",") for name in ("host", "port"))
    ports = ports * len(names) if len(ports) == 1 else ports
    if len(names) == 1 or len(ports) != len(names) or parameters.get("hostaddr"):
        return ({name: parameters[name] for name in ("host", "port") if parameters.get(name)},)
    return tuple({"host": name, "port": port or None} for name, port in zip(names, ports, strict=True))
