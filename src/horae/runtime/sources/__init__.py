"""Sources of a worker's jobs: the store of this process, a service over HTTP, or a relay over a message bus."""
