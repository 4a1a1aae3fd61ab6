"""The verbs of attention: of the outside, of a lane, of its driver."""
