"""Governed objects and what was decided about them: rows to values and back."""
