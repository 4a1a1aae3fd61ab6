"""A migrated SQLite file to copy: making the tables anew for each of thousands of tests took minutes."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate


def put_tables(file: Path) -> str:
    """The URL of a new database that has its tables already."""
    shutil.copyfile(_template(), file)
    return f"sqlite:///{file}"


@cache
def _template() -> Path:
    file = Path(tempfile.mkdtemp(prefix="horae-template-")) / "horae.db"
    engine = create_store_engine(f"sqlite:///{file}")
    migrate(engine)
    engine.dispose()  # the last connection takes the log along: the file is whole
    return file
