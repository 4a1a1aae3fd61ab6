"""``horae demo``: stories that run here and now, without a key, a network or a server."""
