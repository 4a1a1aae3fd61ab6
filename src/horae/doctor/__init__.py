"""What may be wrong with an installation: small checks, each with one sentence and the command that mends it."""
