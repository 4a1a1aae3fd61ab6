"""Logs of calls for rate limits: in the database, in Redis, in this process."""
