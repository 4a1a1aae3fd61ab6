"""Users' own scheduled tasks."""
