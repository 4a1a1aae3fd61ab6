"""The tables, one module per room.

All names begin with ``horae_`` so that the tables can live inside an application's own database. Instants are
integer microseconds, JSON is stored and read as text, states are words.
"""
