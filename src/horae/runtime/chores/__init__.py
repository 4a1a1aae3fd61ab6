"""Chores of every worker beside its queues: delete old rows, hand on lost jobs, serve Horae's own jobs."""
