"""Audit: entries, and the chain that holds them in place."""
