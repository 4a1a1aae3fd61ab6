"""Jobs: what one is, how it moves, what may travel with it."""
