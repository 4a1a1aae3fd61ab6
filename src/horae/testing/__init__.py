"""For our users' tests and for our own: virtual time, loaded dice, builders, the suite every store must pass."""
