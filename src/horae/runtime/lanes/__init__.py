"""Drive the lanes of agents."""
