"""Jobs and what belongs to them: queues, limits, workers, definitions."""
