"""Lists on the command line name a database of a cluster that does not answer."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_cluster_copies import Enqueue, bring_back, take_away
from tests.cli.test_cluster_copies import cluster as cluster
from tests.cli.test_cluster_copies import enqueue as enqueue


@pytest.fixture
def jobs(enqueue: Enqueue) -> list[str]:
    return [enqueue(f"key-{number}") for number in range(12)]


def test_a_list_of_jobs_names_the_database_that_is_missing(horae: Command, cluster: Path, jobs: list[str]) -> None:
    take_away(cluster, "third")
    listed = horae("job", "list")
    assert listed.code == 0
    assert "third did not answer" in " ".join(listed.err.split())
    assert 0 < sum(each in listed.out for each in jobs) < 12

    found = horae("job", "list", "--json")
    assert (found.json["incomplete"], found.err) == (["third"], "")
    assert {each["id"] for each in found.json["items"]} < set(jobs)

    bring_back(cluster, "third")
    whole = horae("job", "list", "--json")
    assert "incomplete" not in whole.json
    assert {each["id"] for each in whole.json["items"]} == set(jobs)
    assert horae("job", "list").err == ""


def test_an_error_of_all_databases_is_not_a_list(horae: Command, cluster: Path, jobs: list[str]) -> None:
    take_away(cluster, "first")
    assert horae("job", "list").code != 0
