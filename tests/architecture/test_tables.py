"""Whoever walks over all tables gets all tables."""

import re
from pathlib import Path

import horae

ROOT = Path(horae.__file__).parent
IMPORT = re.compile(r"\bdeclaration import ([^(\n]*|\([^)]*)\bmetadata\b")
MAY_IMPORT = ("stores/tables/", "stores/metadata.py")


def test_only_tables_use_the_metadata_that_grows_by_import() -> None:
    """A short command imports few tables; `horae.stores.metadata` has every one of them."""
    found = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if IMPORT.search(path.read_text())]

    assert [path for path in found if not path.startswith(MAY_IMPORT)] == []
    assert any(path.startswith("stores/tables/") for path in found)
