"""Which databases of a cluster a process serves: later ones, too; one that is away: see ``test_losing_a_database``."""

from horae.actions import cluster as verbs
from horae.stores.cluster.addresses import public_address
from tests.cluster.conftest import Clusters


def test_a_database_that_is_added_later_is_found_without_a_restart(clusters: Clusters) -> None:
    first, second = clusters.urls(2)
    verbs.init(clusters.open(first), name="first", address=public_address(first, first))
    serving = clusters.open(first)
    assert serving.cluster is not None
    further = serving.cluster.further(serving)
    assert further() == []
    clusters.add(clusters.open(first), second, "second", first)  # by another process
    assert len(further()) == 1
    assert further() == []
