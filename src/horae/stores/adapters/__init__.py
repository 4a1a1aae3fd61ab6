"""Statements of the tables in which agent frameworks keep their state."""
