"""Authenticate callers: JWTs, tokens that end while their holder waits, and who holds which job."""
