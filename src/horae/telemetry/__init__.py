"""OpenTelemetry: an enqueue, its runs and what they call as one trace. Needs the extra ``otel``."""

from horae.telemetry.spans import Ending, HasTracing, OpenTelemetry, headers, instrument

__all__ = ["Ending", "HasTracing", "OpenTelemetry", "headers", "instrument"]
