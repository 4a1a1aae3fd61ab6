"""SQL and rows: the only floor that knows tables, and the only one that knows databases differ."""
