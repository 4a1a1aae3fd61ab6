"""The suite every store must pass; it runs unchanged on all of them.

The author of a store (the port ``horae.ports.store.Store``) proves it with a fixture and a subclass in a test file:

.. code-block:: python

    import pytest
    from horae.testing.conformance import StoreConformance


    @pytest.fixture
    def store():
        store = MyStore(...)  # empty, with its tables, one for each test
        yield store
        store.close()


    class TestMyStore(StoreConformance):
        pass

It needs nothing but pytest. Every test speaks to the store through the port alone, from several threads where that
matters, and takes instants as parameters, so that no test waits for time to pass. For readable failures put
``pytest.register_assert_rewrite("horae.testing")`` at the top of the ``conftest.py``, before the import.

What the port cannot show (plans, statement counts, error words, migrations) belongs to the tests of each store.
"""

from __future__ import annotations

from horae.testing.conformance.access import AccessConformance
from horae.testing.conformance.claim import ClaimConformance
from horae.testing.conformance.console import ConsoleConformance
from horae.testing.conformance.control import ControlConformance
from horae.testing.conformance.definitions import DefinitionConformance
from horae.testing.conformance.enqueue import EnqueueConformance
from horae.testing.conformance.lease import LeaseConformance
from horae.testing.conformance.links import LinkConformance
from horae.testing.conformance.locks import LockConformance
from horae.testing.conformance.parents import ParentConformance
from horae.testing.conformance.schedules import ScheduleConformance
from horae.testing.conformance.settle import SettleConformance


class StoreConformance(
    EnqueueConformance,
    ClaimConformance,
    SettleConformance,
    LeaseConformance,
    ControlConformance,
    ScheduleConformance,
    LinkConformance,
    LockConformance,
    ParentConformance,
    AccessConformance,
    DefinitionConformance,
    ConsoleConformance,
):
    """Every promise of a store, room by room."""
