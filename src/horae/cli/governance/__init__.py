"""Commands of governance."""
