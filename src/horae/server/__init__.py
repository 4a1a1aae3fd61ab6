"""The service as a process: a socket, uvicorn, and the settings it serves with."""
