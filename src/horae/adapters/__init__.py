"""Adapters of agent frameworks, one package or module each; each needs the extra of its name."""
