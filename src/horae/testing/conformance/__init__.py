"""The suite every store must pass; it runs unchanged on all of them. How to use it: ``suite.py``."""

from horae.testing.conformance.suite import StoreConformance

__all__ = ["StoreConformance"]
