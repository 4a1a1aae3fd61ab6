"""Rows spread over several databases: virtual shards, the map of where each lives, and numbers that carry them."""
