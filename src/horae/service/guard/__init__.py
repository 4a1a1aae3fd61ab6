"""What stands before every request: sizes, rates, headers."""
