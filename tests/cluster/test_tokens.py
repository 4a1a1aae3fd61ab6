"""Access tokens in a cluster: with their owner, valid across a move, and never invalid because a database is away."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions import moves
from horae.actions.access import secrets, sessions, tokens
from horae.actions.access.token_places import find_token
from horae.core.access.callers import Token, digest_of, parse_token, token_text, vshard_of_token
from horae.core.cluster.moves import Parcel
from horae.core.cluster.shard_map import HOME, Member
from horae.errors import NotFound, StoreError, StoreUnavailable, Unauthorized
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.auth.validity import Watch
from horae.stores.cluster.cluster import Cluster
from horae.stores.store import SqlStore
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import rooms
from tests.cluster.test_moving import map_of, vshard_of
from tests.cluster.test_settings import Absence, only_files
from tests.support.waiting import wait_until

SCOPES = ("tasks", "worker")


def owner_in(world: World, number: int) -> str:
    """Return a tenant that lives in a database."""
    names = (f"owner-{index}" for index in range(999))
    return next(each for each in names if map_of(world).database_of(vshard_of(world, each)) == number)


def make(world: World, owner: str) -> tuple[str, str]:
    token, text = tokens.create_token(world, owner=owner, scopes=SCOPES)
    return token.token_id, text


def make_old(world: World, owner: str, number: int = 1, token_id: str = "0123456789ab") -> str:
    """Store a token as one database did before there was a cluster; return its text."""
    secret = "5" * 64
    token = Token(token_id, digest_of(secret), owner, "", SCOPES, world.clock.now(), "ann")
    assert world.cluster is not None
    world.cluster.store_of(number).transact(lambda tx: tx.tokens.add(token))
    return token_text(token_id, secret)


def databases_with(world: World, token_id: str) -> list[int]:
    assert world.cluster is not None
    members = world.cluster.shard_map.members
    stores = {each.number: world.cluster.store_of(each.number) for each in members}
    return [number for number, store in stores.items() if store.read(lambda tx: tx.tokens.get(token_id)) is not None]


# -- where they are ----------------------------------------------------------------------------------------------------


def test_a_new_token_lives_with_its_owner_and_names_its_shard(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for number in (1, 2, 3):
        owner = owner_in(world, number)
        token_id, text = make(world, owner)
        assert vshard_of_token(token_id) == vshard_of(world, owner)
        assert databases_with(world, token_id) == [number]
        assert tokens.recognise(world, text).owner == owner
    token_id, text = make(world, "system")
    assert vshard_of_token(token_id) == HOME
    assert databases_with(world, token_id) == [1]
    assert tokens.recognise(world, text).is_operator
    listed = rooms(world).tokens.list()
    assert sorted({each.owner for each in listed}) == sorted(["system", *(owner_in(world, n) for n in (1, 2, 3))])


def test_a_single_database_makes_tokens_as_ever(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    world = clusters.open(url)
    token_id, text = make(world, "ada")
    assert len(token_id) == 12
    assert tokens.recognise(world, text).owner == "ada"


def test_a_text_with_a_shard_that_cannot_be_is_no_token(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    for token_id in ("4096x0123456789ab", "9999x0123456789ab", "17x0123456789ab"):
        with pytest.raises(Unauthorized):
            tokens.recognise(world, token_text(token_id, "5" * 64))
    assert parse_token(token_text("4096x0123456789ab", "5" * 64)) is None
    with pytest.raises(NotFound):
        tokens.revoke_token(world, "17x0123456789ab")


def test_a_wrong_secret_is_refused(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    token_id, _ = make(world, "ada")
    with pytest.raises(Unauthorized):
        tokens.recognise(world, token_text(token_id, "6" * 64))


# -- from before -------------------------------------------------------------------------------------------------------


@only_files
def test_a_token_from_before_is_asked_of_every_database_once(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    text = make_old(world, owner_in(world, 2), 2)
    assert tokens.recognise(world, text).owner == owner_in(world, 2)
    assert world.cluster is not None
    assert dict(world.cluster.token_hints) == {"0123456789ab": 2}
    Absence(urls, 3).begin(world, 3)
    assert tokens.recognise(world, text).token_id is not None
    clusters.clock.advance(timedelta(minutes=5))
    assert tokens.recognise(world, text).token_id is not None
    found = find_token(world, "0123456789ab")
    assert found is not None
    assert found.token.used_at == clusters.clock.now()


def test_a_token_from_when_all_were_kept_at_home_stays_valid_and_is_listed_and_revoked(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    owner = owner_in(world, 2)
    text = make_old(world, owner, 1)
    assert tokens.recognise(world, text).owner == owner
    new, _ = make(world, owner)
    assert {each.token_id for each in tokens.find_tokens(world, owner=owner)} == {"0123456789ab", new}
    assert tokens.revoke_token(world, "0123456789ab", actor="ann").revoked_by == "ann"
    with pytest.raises(Unauthorized):
        tokens.recognise(world, text)


# -- moving ------------------------------------------------------------------------------------------------------------


def test_tokens_stay_valid_across_a_move_and_can_be_revoked_after_it(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    owner = owner_in(world, 1)
    token_id, text = make(world, owner)
    old = make_old(world, owner, 1)
    other = clusters.open(urls[1])  # another process, which knows the map of before and where the token was
    assert tokens.recognise(other, old).token_id is not None
    moves.move(world, [vshard_of(world, owner)], "db-2")
    assert databases_with(world, token_id) == [2]
    assert databases_with(world, "0123456789ab") == [2]
    for process in (world, other, clusters.open(urls[0])):
        assert tokens.recognise(process, text).owner == owner
        assert tokens.recognise(process, old).owner == owner
        callers = [tokens.recognise(process, each) for each in (text, old)]
        assert tokens.find_invalid(process, callers) == []
    tokens.revoke_token(world, token_id)
    tokens.revoke_token(world, "0123456789ab")
    for each in (text, old):
        with pytest.raises(Unauthorized):
            tokens.recognise(other, each)


def test_a_token_on_the_way_is_an_error_of_the_store_and_never_invalid(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    owner = owner_in(world, 1)
    _, text = make(world, owner)
    old = make_old(world, owner, 1)
    callers = [tokens.recognise(world, each) for each in (text, old)]
    _, stranger = make(world, owner_in(world, 2))
    moves.pack(world, Parcel("parcel", 1, 2, (vshard_of(world, owner),)))
    for each in (text, old):
        with pytest.raises(StoreError):
            tokens.recognise(world, each)
    with pytest.raises(StoreError):
        tokens.find_invalid(world, callers)
    known = tokens.recognise(world, stranger)
    assert tokens.find_invalid(world, [*callers, known]) == []
    with pytest.raises(StoreError):
        tokens.check_valid(world, callers[0])
    moves.finish(world)
    assert [tokens.recognise(world, each).owner for each in (text, old)] == [owner, owner]
    assert tokens.find_invalid(world, callers) == []


def test_no_revocation_is_lost_while_its_token_is_being_moved(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    owner, old = owner_in(world, 1), [f"{index:012x}" for index in range(12)]
    made = [make(world, owner)[0] for _ in range(24)]
    for each in old:
        make_old(world, owner, 1, each)
    revoked: list[str] = []

    def revoke(some: list[str]) -> None:
        process = clusters.open(urls[0])
        for each in some:
            with suppress(StoreError):  # not acknowledged
                tokens.revoke_token(process, each)
                revoked.append(each)

    threads = [threading.Thread(target=revoke, args=(some,)) for some in (made[:12], made[12:], old)]
    for thread in threads:
        thread.start()
    for name in ("db-2", "first", "db-2"):
        moves.move(world, [vshard_of(world, owner)], name)
    for thread in threads:
        thread.join(120)
    for token_id in [*made, *old]:
        found = find_token(world, token_id)
        assert found is not None
        assert databases_with(world, token_id) == [2]
        assert token_id not in revoked or found.token.revoked_at is not None
    assert revoked


# -- one that is away --------------------------------------------------------------------------------------------------


@only_files
def test_a_database_that_is_away_fails_its_own_owners_tokens_alone(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    here, there = (make(world, owner_in(world, number))[1] for number in (2, 3))
    _, house = make(world, "system")
    callers = [tokens.recognise(world, each) for each in (here, there, house)]
    absence = Absence(urls, 3)
    absence.begin(world, 3)
    world = clusters.open(urls[0])
    client = TestClient(build(lambda: world))

    def status(text: str) -> int:
        return client.get("/jobs", headers={"Authorization": f"Bearer {text}"}).status_code

    assert [status(each) for each in (here, there, house)] == [200, 503, 200]
    assert status(token_text("0123456789ab", "5" * 64)) == 503  # from before: it may be there
    vshard = vshard_of(world, owner_in(world, 2))
    assert status(token_text(f"{vshard}x0123456789ab", "5" * 64)) == 401
    tokens.revoke_token(world, callers[0].token_id or "")
    assert tokens.find_invalid(world, callers) == [callers[0]]
    absence.end()
    world = clusters.open(urls[0])
    client = TestClient(build(lambda: world))
    assert [status(each) for each in (here, there, house)] == [401, 200, 200]


@only_files
def test_the_home_may_be_away_and_tenants_elsewhere_are_recognised(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    _, tenant = make(world, owner_in(world, 2))
    _, house = make(world, "system")
    Absence(urls, 1).begin(world, 1)
    world = clusters.open(urls[1])
    assert tokens.recognise(world, tenant).token_id is not None
    with pytest.raises(StoreError):
        tokens.recognise(world, house)


# -- revocation --------------------------------------------------------------------------------------------------------


def test_a_token_that_another_process_revokes_ends_its_waits_within_a_second(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    other = clusters.open(urls[2])
    watch, ended = Watch(), dict[int, threading.Event]()
    ids = {number: make(world, owner_in(world, number)) for number in (1, 2, 3)}
    callers = {number: tokens.recognise(world, text) for number, (_, text) in ids.items()}
    with watch.watching(world, callers[1], (ended.setdefault(1, threading.Event())).set):
        with watch.watching(world, callers[3], (ended.setdefault(3, threading.Event())).set):
            tokens.revoke_token(other, ids[3][0])
            assert ended[3].wait(30.0)
            assert not ended[1].is_set()
        tokens.revoke_token(other, ids[1][0])
        wait_until(ended[1].is_set, "the end of the other wait")


# -- browsers, secrets, quiet hours ------------------------------------------------------------------------------------


def test_a_browser_of_a_tenant_is_logged_in_by_a_token_of_another_database(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    owner = owner_in(world, 2)
    token_id, _ = make(world, owner)
    _, code = sessions.create_code(world, token_id)
    session, cookie = sessions.redeem_code(world, code)
    assert session.owner == owner
    assert sessions.recognise_session(world, cookie).token_id == token_id
    assert [each.owner for each in sessions.find_sessions(world, owner=owner)] == [owner]
    with pytest.raises(Unauthorized):
        sessions.redeem_code(world, code)
    moves.move(world, [vshard_of(world, owner)], "first")
    assert sessions.recognise_session(world, cookie).owner == owner
    tokens.revoke_token(world, token_id)
    with pytest.raises(Unauthorized):
        sessions.recognise_session(world, cookie)
    with pytest.raises(NotFound):
        sessions.create_code(world, token_id)


@only_files
def test_a_login_code_is_not_lost_while_the_database_of_its_token_is_away(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    token_id, _ = make(world, owner_in(world, 2))
    _, code = sessions.create_code(world, token_id)
    absence = Absence(urls, 2)
    absence.begin(world, 2)
    world = clusters.open(urls[0])
    with pytest.raises(StoreError):
        sessions.redeem_code(world, code)
    absence.end()
    world = clusters.open(urls[0])
    session, _ = sessions.redeem_code(world, code)
    assert session.token_id == token_id


class Sealer:
    """Seals with a mark that tells the key."""

    def __init__(self, key: str) -> None:
        self.key = key

    def seal(self, owner: str, name: str, text: str) -> str:
        return f"{self.key}:{text}"

    def open(self, owner: str, name: str, sealed: str) -> str:
        return sealed.partition(":")[2]

    def is_current(self, sealed: str) -> bool:
        return sealed.startswith(f"{self.key}:")


def test_secrets_of_every_database_are_resealed_and_quiet_owners_listed(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    names = [owner_in(world, number) for number in (1, 2, 3)]
    old: Any = Sealer("old")
    new: Any = Sealer("new")
    for owner in names:
        secrets.put_secret(world, old, "orders", "a secret text of some length", owner=owner)
        rooms(world).owners.quiet(owner, "22:00-07:00")
    assert secrets.reseal_secrets(world, new) == 3
    assert secrets.reseal_secrets(world, new) == 0
    assert [each.owner for each in rooms(world).owners.list_quiet()] == sorted(names)


class SlowToOpen(Cluster):
    """A cluster of which one database does not answer until it is told to fail."""

    asked: threading.Semaphore
    ends: threading.Event

    def _open(self, member: Member) -> SqlStore:
        if member.number != 3:
            return super()._open(member)
        self.asked.release()
        assert self.ends.wait(60)
        raise StoreUnavailable("store_not_opened_yet")


@only_files
def test_a_database_that_does_not_answer_keeps_nobody_else_waiting(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    here, there = (make(world, owner_in(world, number))[1] for number in (2, 3))
    world = clusters.open(urls[0])
    slow: Any = world.cluster
    slow.__class__ = SlowToOpen
    slow.asked, slow.ends, problems = threading.Semaphore(0), threading.Event(), list[StoreError]()

    def call() -> None:
        try:
            tokens.recognise(world, there)
        except StoreError as away:
            problems.append(away)

    threads = [threading.Thread(target=call) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert slow.asked.acquire(timeout=60)
    assert tokens.recognise(world, here).token_id is not None
    slow.ends.set()
    for thread in threads:
        thread.join(60)
    assert len(problems) == 5
