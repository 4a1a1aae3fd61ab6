"""The verbs of schedules and their fires."""
