"""Sources of a worker's jobs: the store of this process, or a service over HTTP."""
