"""From ``module:app`` to an application; what does not work is told with what would."""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from horae.app import Horae
from horae.declare.jobs_conf import JobsFile
from horae.errors import ConfigurationError, HoraeError, InvalidInput
from horae.settings import Settings


def application(target: str, database: str | None = None) -> Horae:
    """The application that *target* names, imported with the current folder on the path.

    *database* replaces the application's own, which is possible until it has been opened.
    """
    module_name, _, attribute = target.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise InvalidInput(f"{target!r} is a path; name the module: {dotted}:{attribute or 'app'}")
    module = _import(module_name)
    app = _found(module, attribute)
    if database is not None:
        if "engine" in vars(app):
            raise ConfigurationError(
                f"{target} opens its database while it is imported, so --db comes too late. Move what enqueues or "
                "queries at import time into a function."
            )
        app.database = database
    return app


def bare_application(name: str, settings: Settings) -> Horae:
    """Make an application without code of its own, for a process that serves built-in jobs only."""
    return BareApplication(settings.database_url, name=name, synchronous=settings.synchronous)


class BareApplication(Horae):
    """Has no declared jobs, so a ``jobs.conf`` in the current folder is not about it."""

    def jobs_file(self) -> JobsFile:
        return JobsFile()


def _import(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise InvalidInput(f"{name!r} is not the name of a module; write for example receipts:app.")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (name == problem.name or name.startswith(problem.name + ".")):
            raise InvalidInput(f"There is no module {name!r} here ({Path.cwd()}).{_nearby(name)}") from None
        raise ConfigurationError(
            f"{name} cannot be imported: it needs {problem.name!r}, which is not installed here ({_place(problem)})."
        ) from problem
    except HoraeError as problem:
        raise ConfigurationError(f"{name} cannot be imported: {problem} ({_place(problem)})") from problem
    except (Exception, SystemExit) as problem:
        raise ConfigurationError(
            f"{name} cannot be imported: {type(problem).__name__}: {problem} ({_place(problem)})"
        ) from problem


def _nearby(name: str) -> str:
    here = [file.stem for file in Path.cwd().glob("*.py")] + [
        file.parent.name for file in Path.cwd().glob("*/__init__.py")
    ]
    close = difflib.get_close_matches(name, here, n=1)
    if close:
        return f" Did you mean {close[0]}?"
    return " Start the command in the folder that holds it, or install its package."


def _place(problem: BaseException) -> str:
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{last.filename}, line {last.lineno}"


def _found(module: ModuleType, attribute: str) -> Horae:
    apps = [name for name, value in vars(module).items() if isinstance(value, Horae)]
    name = attribute or (apps[0] if len(apps) == 1 else "app")
    value = getattr(module, name, None)
    if isinstance(value, Horae):
        return value
    has = f" It has {', '.join(f'{module.__name__}:{each}' for each in apps)}." if apps else " It declares none."
    if value is None:
        raise InvalidInput(f"{module.__name__} has no {name!r}.{has}")
    raise InvalidInput(f"{module.__name__}:{name} is a {type(value).__name__}, not a Horae application.{has}")
