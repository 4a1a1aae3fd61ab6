"""Enqueueing inside the caller's own transaction, as a web application with SQLAlchemy does it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from horae import Horae, prepare_sqlite
from horae.actions.jobs import jobs as verbs
from tests.journeys.conftest import Journey

ASYNC_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg_async", "mysql": "mysql+aiomysql"}


@pytest.fixture
def shop(journey: Journey) -> Journey:
    """The application's own table, beside ours in one database."""
    with journey.app.engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (number INTEGER PRIMARY KEY)"))
    return journey


@asynccontextmanager
async def session(journey: Journey) -> AsyncIterator[AsyncSession]:
    url = make_url(journey.url)
    engine = create_async_engine(url.set(drivername=ASYNC_DRIVERS[url.get_backend_name()]))
    if engine.dialect.name == "sqlite":
        prepare_sqlite(engine.sync_engine)
    try:
        async with AsyncSession(engine) as session:
            yield session
    finally:
        await engine.dispose()


async def place_order(app: Horae, session: AsyncSession, number: int, *, by_hand: bool) -> None:
    """An endpoint: one row of its own and one job, or neither."""
    await session.execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})
    brief = app.job(f"order-{number}")(lambda order: None)
    if by_hand:
        await session.run_sync(lambda plain: brief.using(connection=plain).enqueue(order=number))
    else:
        await brief.using(connection=session).enqueue_async(order=number)


def orders(journey: Journey) -> list[int]:
    with journey.app.engine.connect() as connection:
        return [row[0] for row in connection.execute(text("SELECT number FROM orders ORDER BY number"))]


@pytest.mark.parametrize("by_hand", [True, False], ids=["run_sync", "enqueue_async"])
async def test_an_async_session_that_rolls_back_takes_the_job_with_it(shop: Journey, by_hand: bool) -> None:
    async with session(shop) as mine:
        await place_order(shop.app, mine, 1, by_hand=by_hand)
        await mine.rollback()
        await place_order(shop.app, mine, 2, by_hand=by_hand)
        assert verbs.find(shop.app.world) == []  # nobody sees it yet
        await mine.commit()

    assert orders(shop) == [2]
    assert [job.handler for job in verbs.find(shop.app.world)] == ["order-2"]


def test_a_plain_session_and_a_connection_do_the_same(shop: Journey) -> None:
    brief = shop.app.job("order")(lambda order: None)
    engine = create_engine(shop.url)
    if engine.dialect.name == "sqlite":
        prepare_sqlite(engine)
    with Session(engine) as mine:
        mine.execute(text("INSERT INTO orders VALUES (1)"))
        brief.using(connection=mine).enqueue(order=1)
        mine.rollback()
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES (2)"))
        brief.using(connection=connection, key="order:2").enqueue(order=2)
    with engine.connect() as connection:
        brief.using(connection=connection, key="order:3").enqueue(order=3)
        connection.rollback()
    engine.dispose()

    assert orders(shop) == [2]
    assert [job.payload for job in verbs.find(shop.app.world)] == [{"order": 2}]
    assert not brief.using(key="order:3").enqueue(order=3).deduplicated  # the key was never taken


def test_a_job_committed_with_the_callers_transaction_is_run_by_a_waiting_worker(shop: Journey) -> None:
    worker = shop.worker(look_every=5.0)
    with Session(shop.app.engine) as mine:
        job = verbs.enqueue(shop.app.world, shop.brief(1), connection=mine.connection())
        mine.commit()

    ran = worker.until("ran")
    assert ran.job == job.job.number
