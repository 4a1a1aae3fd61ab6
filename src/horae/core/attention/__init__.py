"""Attention: tasks, lanes, and what cognition answers."""
