"""Schedules: what fires when, what becomes of a fire, and how to say it in words."""
