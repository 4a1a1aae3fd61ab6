"""Drive lanes of attention."""
