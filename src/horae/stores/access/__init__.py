"""Tokens, owners and sealed secrets."""
