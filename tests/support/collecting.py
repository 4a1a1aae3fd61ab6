"""Let the garbage collector work less: what is imported stays, and tests make few cycles.

Looking through every imported object again and again took a seventh of the time of a run.
"""

import gc

YOUNG = 50_000  # objects that are made before the collector looks; 700 by default


def pause() -> None:
    """Collect nothing while modules are imported and tests are found."""
    gc.disable()


def resume() -> None:
    """Collect again, from now on and more seldom, without what is there already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
    gc.enable()
