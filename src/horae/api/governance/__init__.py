"""The rooms of governance: objects, decisions, personas, reviews."""
