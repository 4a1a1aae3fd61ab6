"""The verbs of jobs, queues, limits and workers."""
