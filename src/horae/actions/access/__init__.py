"""The verbs of tokens, owners and secrets."""
