"""The room of jobs."""
