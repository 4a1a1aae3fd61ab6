"""A plug-in of pytest: a Lab as a fixture.

::

    # conftest.py
    pytest_plugins = ["horae.testing.pytest"]

    # pytest.ini
    [pytest]
    horae_app = shop.jobs:app

    # test_shop.py
    def test_a_receipt_is_sent(horae_lab):
        job = send_receipt.enqueue(order_id=42)
        horae_lab.settle()
        assert horae_lab.state_of(job) == "succeeded"

    @pytest.mark.horae_lab(starts_at="2030-01-07T05:59:00Z")
    def test_the_digest_fires(horae_lab): ...

A project that makes its application in a fixture of its own overrides ``horae_app``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from horae.app import Horae
from horae.testing.lab import Lab
from horae.testing.sync_lab import SyncLab

OPTION = "horae_app"
MARKER = "horae_lab"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(OPTION, "The application under test, as MODULE:APP; the fixture horae_app returns it.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(**options): options of the Lab: starts_at, seed, lease …")


@pytest.fixture
def horae_app(request: pytest.FixtureRequest) -> Horae:
    """The application that the option ``horae_app`` names; override it to make one in another way."""
    target = str(request.config.getini(OPTION))
    module, colon, name = target.partition(":")
    if not module or not colon or not name:
        raise pytest.UsageError(
            f"{OPTION} = {target!r} names no application; write {OPTION} = shop.jobs:app into the configuration of "
            "pytest, or override the fixture horae_app."
        )
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, Horae):
        raise pytest.UsageError(f"{OPTION} = {target!r}: {module} has no application of that name.")
    return found


@pytest.fixture
def horae_lab(request: pytest.FixtureRequest, horae_app: Horae) -> Iterator[SyncLab]:
    """A Lab whose methods block, around the whole test."""
    with SyncLab(horae_app, **_options(request)) as lab:
        yield lab


@pytest.fixture
def horae_async_lab(request: pytest.FixtureRequest, horae_app: Horae) -> Lab:
    """A Lab for a test with asyncio, to be entered there: ``async with horae_async_lab as lab``."""
    return Lab(horae_app, **_options(request))


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker(MARKER)
    return {} if marker is None else dict(marker.kwargs)
