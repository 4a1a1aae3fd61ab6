"""The rooms of tokens, owners and secrets."""
