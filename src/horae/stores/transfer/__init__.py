"""Move everything that Horae keeps from one database to another, of whichever kind, through one file."""
