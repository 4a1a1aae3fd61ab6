"""Our own endpoints, room by room: each is one line over an operation of ``horae.api``."""
