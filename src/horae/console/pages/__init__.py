"""The pages, one module for each room."""
