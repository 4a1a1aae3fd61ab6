"""``horae schedule``."""
