"""From ``module:app`` to an application; a refusal names what would work."""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from horae.app import Horae
from horae.cli.terminal import redact_url
from horae.declare.jobs_conf import JobsFile
from horae.errors import ConfigurationError, HoraeError, InvalidInput
from horae.settings import Settings

if TYPE_CHECKING:
    from horae.attention import Attention


def database_of(app: Horae) -> str:
    """Return the URL of an application's database, without its password."""
    return redact_url(app.database) if isinstance(app.database, str) else str(app.database.url)


def application(target: str, database: str | None = None) -> Horae:
    """Import the application that *target* names, with the current folder on the path.

    *database* replaces the application's own, which is possible until it has been opened.
    """
    module_name, _, attribute = target.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise InvalidInput("target_is_path", target=target, module=f"{dotted}:{attribute or 'app'}")
    module = _import(module_name)
    app = _application_in(module, attribute)
    if database is not None:
        if "engine" in vars(app):
            raise ConfigurationError("app_opens_database_early", target=target)
        app.database = database
    return app


def agent(target: str, database: str | None = None) -> Attention:
    """Import the agent that *target* names, as :func:`application` does."""
    from horae.attention import Attention

    module_name, _, attribute = target.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise InvalidInput("target_is_path", target=target, module=f"{dotted}:{attribute or 'agent'}")
    module = _import(module_name)
    known = [name for name, value in vars(module).items() if isinstance(value, Attention)]
    found = getattr(module, attribute or (known[0] if len(known) == 1 else "agent"), None)
    if not isinstance(found, Attention):
        raise InvalidInput("agent_unknown", target=target, agents=[f"{module_name}:{each}" for each in known])
    if database is not None:
        if "engine" in vars(found.app):
            raise ConfigurationError("app_opens_database_early", target=target)
        found.app.database = database
    return found


def imported(target: str) -> Any:
    """Import what *target* names, ``module:name``, of any type, with the current folder on the path."""
    module_name, _, attribute = target.partition(":")
    module = _import(module_name)
    found: Any = module
    for part in (attribute or "app").split("."):
        found = getattr(found, part, None)
    if found is None:
        raise InvalidInput("import_target_missing", module=module_name, name=attribute or "app")
    return found


def bare_application(name: str, settings: Settings) -> Horae:
    """Make an application without code of its own, for a process that serves built-in jobs only."""
    return BareApplication(settings.database_url, name=name, synchronous=settings.synchronous)


class BareApplication(Horae):
    """Has no declared jobs, so a ``jobs.conf`` in the current folder is not about it."""

    def jobs_file(self) -> JobsFile:
        return JobsFile()


def _import(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise InvalidInput("module_name_unreadable", text=name)
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (name == problem.name or name.startswith(problem.name + ".")):
            raise _missing_module(name) from None
        raise ConfigurationError(
            "module_needs_package", module=name, package=problem.name, where=_source_line(problem)
        ) from problem
    except (Exception, SystemExit) as problem:
        text = str(problem) if isinstance(problem, HoraeError) else f"{type(problem).__name__}: {problem}"
        raise ConfigurationError("module_broken", module=name, problem=text, where=_source_line(problem)) from problem


def _missing_module(name: str) -> InvalidInput:
    here = [file.stem for file in Path.cwd().glob("*.py")] + [
        file.parent.name for file in Path.cwd().glob("*/__init__.py")
    ]
    close = difflib.get_close_matches(name, here, n=1)
    if close:
        return InvalidInput("module_misspelt", module=name, folder=str(Path.cwd()), close=close[0])
    return InvalidInput("module_missing", module=name, folder=str(Path.cwd()))


def _source_line(problem: BaseException) -> str:
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{last.filename}, line {last.lineno}"


def _application_in(module: ModuleType, attribute: str) -> Horae:
    apps = [name for name, value in vars(module).items() if isinstance(value, Horae)]
    name = attribute or (apps[0] if len(apps) == 1 else "app")
    value = getattr(module, name, None)
    if isinstance(value, Horae):
        return value
    declared = [f"{module.__name__}:{each}" for each in apps]
    if value is None:
        raise InvalidInput("app_has_no_such_name", module=module.__name__, name=name, apps=declared)
    target = f"{module.__name__}:{name}"
    raise InvalidInput("app_of_wrong_type", target=target, type=type(value).__name__, apps=declared)
