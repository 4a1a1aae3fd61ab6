"""``horae token`` and ``horae audit``."""
