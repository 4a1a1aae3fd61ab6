"""The verbs of settings that every database of a cluster has a copy of."""
