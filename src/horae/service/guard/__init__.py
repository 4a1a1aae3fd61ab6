"""Checks before every request: sizes, rates, headers."""
