"""The room of users' scheduled tasks."""
