"""The room of schedules."""
