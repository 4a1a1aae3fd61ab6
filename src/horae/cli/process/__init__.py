"""Commands that keep running: ``horae worker``, ``server``, ``up``, ``mcp``."""
