"""What Horae costs and how quick it is, beside its peers and the bare database, in one run: ``make bench``."""
