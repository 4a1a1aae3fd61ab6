"""The worker: claim what is due, run it, settle it."""
