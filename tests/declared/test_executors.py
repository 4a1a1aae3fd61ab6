"""Where a handler runs: what cannot work is refused by a check and by a worker, not where jobs are enqueued."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from horae import Horae
from horae.errors import ConfigurationError, DefinitionError, MissingExtra
from horae.executors import DaskExecutor, KubernetesExecutor, RayExecutor
from horae.executors.names import need_module
from horae.ports.executors import Handle, RemoteCall, RemoteEnding, RemoteExecutor, RemoteStatus
from tests.executors.own import EXAMPLE
from tests.support.refusals import refused

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-an-executor.md"


class Unready:
    """An executor whose library is not installed."""

    name = "unready"

    def check(self) -> None:
        need_module("no_such_library", "ray")

    def submit(self, call: RemoteCall) -> Handle:
        raise NotImplementedError

    def look(self, handle: Handle) -> RemoteStatus:
        raise NotImplementedError

    def wait(self, handle: Handle, limit: timedelta) -> RemoteStatus:
        raise NotImplementedError

    def cancel(self, handle: Handle) -> None:
        raise NotImplementedError

    def collect(self, handle: Handle) -> RemoteEnding:
        raise NotImplementedError


def work() -> None:
    """Do nothing."""


def test_the_executors_by_name_are_executors() -> None:
    app = Horae("sqlite://")
    kinds = {"ray": RayExecutor, "dask": DaskExecutor, "kubernetes": KubernetesExecutor}

    for name in ("ray", "dask", "kubernetes"):
        definition = app.job(name, executor=name)(work).definition

        assert definition.executor == name
        assert isinstance(definition.remote, kinds[name])
        assert isinstance(definition.remote, RemoteExecutor)


def test_an_executor_that_is_none_is_refused_with_the_choices() -> None:
    app = Horae("sqlite://")

    for strange in ("fork", object()):
        with refused(DefinitionError, "executor_unknown"):
            app.job("odd", executor=strange)(work)  # type: ignore[arg-type]


def test_a_missing_extra_is_refused_where_jobs_run_and_not_where_they_are_enqueued() -> None:
    app = Horae("sqlite://")
    handle = app.job("heavy", executor=Unready())(work)

    assert handle.enqueue().id == "job_1"
    assert ["pip install 'horae[ray]'" in str(problem) for problem in app.problems()] == [True]
    with refused(MissingExtra, "executor_extra_missing", executor="ray", extra="ray"):
        app.worker()


def test_a_cluster_that_is_not_named_is_found_by_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DASK_SCHEDULER_ADDRESS", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)

    with refused(ConfigurationError, "dask_address_missing"):
        DaskExecutor().check()
    with refused(ConfigurationError, "kubernetes_url_missing"):
        KubernetesExecutor("image").check()
    with refused(ConfigurationError, "kubernetes_image_missing"):
        KubernetesExecutor(url="http://127.0.0.1:1").check()


def test_a_job_on_all_nodes_does_not_run_elsewhere() -> None:
    app = Horae("sqlite://")
    app.job("everywhere", executor="ray", cron="* * * * *", mode="ALL_NODES")(work)

    assert any("drop mode= or executor=" in str(problem) for problem in app.problems())


def test_a_verifier_does_not_run_elsewhere() -> None:
    with refused(DefinitionError, "verifier_not_remote", executor="ray"):
        Horae("sqlite://").verifier("memory", executor="ray")(lambda memory: None)


def test_the_page_shows_the_example_as_it_is() -> None:
    assert EXAMPLE.read_text(encoding="utf-8") in PAGE.read_text(encoding="utf-8")
