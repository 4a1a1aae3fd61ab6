"""Schedules, their fires, and users' scheduled tasks."""
