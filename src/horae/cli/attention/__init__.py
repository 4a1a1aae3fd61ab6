"""``horae attention``."""
