"""Where a worker takes its jobs from: the store of this process, or a service over HTTP."""
