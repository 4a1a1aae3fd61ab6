"""Figures as Prometheus reads them. Needs prometheus-client and nothing else of the service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from horae.core.metrics import Family, Spread, merged
from horae.errors import ConfigurationError

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
Tell = Callable[[], Iterable[Family]]


class StoredMetrics(Collector):
    """Asks for the figures whenever somebody scrapes."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def collect(self) -> Iterator[Metric]:
        for family in merged(list(self._tell())):
            yield as_metric(family)


def registry_of(tell: Tell) -> CollectorRegistry:
    """A registry of our own: what else lives in this process keeps the global one to itself."""
    registry = CollectorRegistry()
    registry.register(StoredMetrics(tell))
    return registry


def exposed(tell: Tell) -> bytes:
    """One scrape."""
    return generate_latest(registry_of(tell))


def as_metric(family: Family) -> Metric:
    if family.kind == "histogram":
        spread = HistogramMetricFamily(family.name, family.text, labels=family.labels)
        for labels, point in family.points.items():
            if isinstance(point, Spread):
                bounds = [*(f"{bound:g}" for bound in point.bounds), "+Inf"]
                spread.add_metric(labels, list(zip(bounds, accumulate(point.counts), strict=True)), point.total)
        return spread
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    plain = kind(family.name, family.text, labels=family.labels)
    for labels, point in family.points.items():
        if not isinstance(point, Spread):
            plain.add_metric(labels, point)
    return plain


def serve(tell: Tell, *, host: str, port: int) -> Callable[[], None]:
    """Answer scrapes at a port of their own, for a process without the service; calling the answer ends it."""
    try:
        server, thread = start_http_server(port, addr=host, registry=registry_of(tell))
    except OSError as problem:
        raise ConfigurationError("metrics_port_taken", host=host, port=port, problem=str(problem.strerror)) from None

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close
