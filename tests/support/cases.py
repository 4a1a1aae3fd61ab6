"""How many random cases a test tries: all of them in `make test`, a fifth of them in `make quick`.

``HORAE_TEST_DEPTH=10`` multiplies the number. Quick runs are known by the profile of Hypothesis, which
`tests.support.quick` loads.
"""

import os

from hypothesis import settings

DEPTH = int(os.environ.get("HORAE_TEST_DEPTH", "1"))
USUAL = 100  # examples of a property that names no number, in a whole run


def cases(number: int) -> int:
    """Return how many of *number* cases this run tries; at least one."""
    return max(1, number * DEPTH * settings().max_examples // USUAL)
