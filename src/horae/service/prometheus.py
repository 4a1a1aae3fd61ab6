"""Metrics in the format of Prometheus. Needs prometheus-client and nothing else of the service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from horae.core.metrics import Family, Spread, merge_families

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
MetricsReader = Callable[[], Iterable[Family]]


class StoredMetrics(Collector):
    """A collector that reads the metrics at each scrape."""

    def __init__(self, read: MetricsReader) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        for family in merge_families(list(self._read())):
            yield as_metric(family)


def registry_of(read: MetricsReader) -> CollectorRegistry:
    """Return a registry of Horae's own; the global one stays to other code of this process."""
    registry = CollectorRegistry()
    registry.register(StoredMetrics(read))
    return registry


def expose(read: MetricsReader) -> bytes:
    """Return the text of one scrape."""
    return generate_latest(registry_of(read))


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
