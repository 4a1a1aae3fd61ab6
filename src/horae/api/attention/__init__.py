"""The room of attention."""
