"""The door for agents that speak MCP: their tasks, waits and schedules, kept by a lane. Needs the extra ``mcp``."""
