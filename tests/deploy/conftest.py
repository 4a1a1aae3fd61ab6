"""A project folder and a ``horae`` in it, as the tests of the command line have them."""

from tests.cli.conftest import environment, horae, project, start

__all__ = ["environment", "horae", "project", "start"]
