"""The verbs behind adapters of agent frameworks."""
