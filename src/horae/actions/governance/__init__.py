"""The verbs of governance."""
