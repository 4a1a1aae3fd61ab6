"""What every worker does beside its queues: forget, reap, and serve Horae's own jobs."""
