"""The executor of examples/executors, which starts processes on this machine."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

EXAMPLE = Path(__file__).parents[2] / "examples" / "executors" / "detached.py"


def example() -> ModuleType:
    """Import the example as a user's module."""
    if "detached" not in sys.modules:
        spec = importlib.util.spec_from_file_location("detached", EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["detached"] = module
        spec.loader.exec_module(module)
    return sys.modules["detached"]
