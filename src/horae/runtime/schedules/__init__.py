"""Schedules at run time: fire what is due, and surround the runs of scheduled jobs."""
