"""Each door says which database of a cluster did not answer: pages of the console, and clients over HTTP."""

from __future__ import annotations

import pytest

from horae.actions.access.tokens import create_token
from horae.api.operation import Rows
from horae.client.client import Client
from horae.console.install import install
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from tests.cluster.conftest import Clusters
from tests.cluster.test_history import fill_and_work
from tests.cluster.test_settings import Absence
from tests.console.conftest import Browser
from tests.support.serving import answering

pytestmark = pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)


def without_one(clusters: Clusters) -> tuple[World, str]:
    """Return a cluster with jobs, of which the third database has gone away, and a token of the house."""
    world, urls = clusters.make(3)
    fill_and_work(clusters, world, 12)
    token = create_token(world, owner="system", scopes=("admin",))[1]
    Absence(urls, 3).begin(world, 3)
    return clusters.open(urls[0]), token


def test_a_page_with_a_list_says_which_database_is_missing(clusters: Clusters) -> None:
    world, token = without_one(clusters)
    service = build(lambda: world, Options(version="test"))
    install(service)
    browser = Browser(service)
    assert browser.log_in(token).status_code == 303
    for page in ("/jobs", "/errors", "/schedules", "/queues", "/audit", "/governance"):
        assert "Incomplete: db-3 did not answer." in browser.open(page), page


def test_a_client_over_http_names_the_missing_database_of_every_kind_of_answer(clusters: Clusters) -> None:
    world, token = without_one(clusters)
    service = build(lambda: world, Options(version="test"))
    with answering(service) as server, Client(server.url, token=token) as client:
        page = client.jobs.list().page()
        assert (page.incomplete, 0 < len(page.items) < 12) == (("db-3",), True)
        rows = client.queues.list()
        assert isinstance(rows, Rows)
        assert rows.incomplete == ("db-3",)
        assert [type(each).__name__ for each in rows] == ["QueueDetail"]
        figures = client.statistics.list("queue")
        assert isinstance(figures, Rows)
        assert figures.incomplete == ("db-3",)
        assert client.jobs.counts().incomplete == ("db-3",)
        assert client.governance.report().incomplete == ("db-3",)
        assert client.admin.clean_runs(handler="mail", older_than=60).incomplete == ("db-3",)


def test_a_client_over_http_is_told_nothing_where_all_answer(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    token = create_token(world, owner="system", scopes=("admin",))[1]
    service = build(lambda: world, Options(version="test"))
    with answering(service) as server, Client(server.url, token=token) as client:
        assert client.jobs.list().page().incomplete == ()
        assert not isinstance(client.queues.list(), Rows)
