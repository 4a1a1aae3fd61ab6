"""Dependencies of handlers, by type.

An application provides a value or a factory for a type; a job asks for it by annotation or with ``ctx.get(Type)``.
Shared dependencies live until the application stops, those made for a run end with the run. Nothing is guessed: only
provided types, the context, and loggers can be asked for.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar, cast, get_type_hints

from horae.core.dataclass import dataclass
from horae.errors import ConfigurationError, DefinitionError

T = TypeVar("T")
LOGGERS: tuple[type, ...] = (logging.Logger, logging.LoggerAdapter)


@dataclass(frozen=True, slots=True)
class Wish:
    """A parameter to be filled with a dependency."""

    name: str
    kind: Any
    optional: bool


@dataclass(frozen=True, slots=True)
class Provider:
    """How the dependency of one type is made."""

    kind: Any
    make: Callable[..., Any]
    wishes: tuple[Wish, ...]
    is_async: bool = False
    per_run: bool = False
    yields: bool = False  # a generator: the code after its yield cleans up


class Services:
    """All dependencies that an application provides."""

    def __init__(self) -> None:
        self._providers: dict[Any, Provider] = {}
        self._made: dict[Any, Any] = {}
        self._endings = AsyncExitStack()
        self._making = threading.RLock()
        self._users = 0

    def provide(self, kind: Any, made: Any = None, *, per_run: bool = False) -> None:
        """Provide a value, or a factory: a function, a class, a generator that cleans up after its ``yield``.

        A factory's own parameters are filled by their annotations. Without *made* the type itself is the factory.
        """
        made = kind if made is None else made
        self._made.pop(kind, None)
        if not _is_factory(made):
            if per_run:
                raise ConfigurationError("factory_needed", kind=_name(kind))
            self._providers[kind] = Provider(kind, lambda: made, ())
            return
        wishes = wishes_of(made, f"The factory of {_name(kind)}")
        if inspect.isasyncgenfunction(made):
            provider = Provider(kind, asynccontextmanager(made), wishes, is_async=True, per_run=per_run, yields=True)
        elif inspect.isgeneratorfunction(made):
            provider = Provider(kind, contextmanager(made), wishes, per_run=per_run, yields=True)
        else:
            provider = Provider(kind, made, wishes, inspect.iscoroutinefunction(made), per_run)
        self._providers[kind] = provider

    def provider(self, kind: Any) -> Provider | None:
        return self._providers.get(kind)

    def scope(self, given: Mapping[Any, Any]) -> Scope:
        """Return the dependencies of one run; *given* are values of this run alone, by type."""
        return Scope(self, given)

    def problems(
        self, wishes: tuple[Wish, ...], given: tuple[type, ...], *, sync: bool, path: tuple[Any, ...] = ()
    ) -> Iterator[DefinitionError]:
        """Yield an error for each parameter that cannot be filled."""
        for wish in wishes:
            if wish.optional or _is_logger(wish.kind) or wish.kind in given:
                continue
            provider = self._providers.get(wish.kind)
            if provider is None:
                name = _name(wish.kind)
                yield DefinitionError("dependency_missing", name=wish.name, kind=name)
            elif wish.kind in path:
                circle = [_name(kind) for kind in (*path[path.index(wish.kind) :], wish.kind)]
                yield DefinitionError("dependencies_in_circle", circle=circle)
            elif sync and provider.is_async and provider.per_run:
                yield DefinitionError("dependency_needs_async", kind=_name(wish.kind))
            else:
                within = given if provider.per_run else ()
                yield from self.problems(provider.wishes, within, sync=sync, path=(*path, wish.kind))

    # -- shared by all runs --------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Call the async factories now, so that plain functions can use their values too."""
        self._users += 1
        for provider in list(self._providers.values()):
            if provider.is_async and not provider.per_run:
                await self.shared_async(provider)

    async def close(self) -> None:
        """Close the shared dependencies; with several users, only the last one to close does."""
        self._users -= 1
        if self._users <= 0:
            self._users = 0
            endings, self._endings = self._endings, AsyncExitStack()
            self._made.clear()
            await endings.aclose()

    def shared(self, provider: Provider) -> Any:
        """Return the shared dependency of a type, made at the first call."""
        with self._making:
            if provider.kind not in self._made:
                if provider.is_async:
                    raise ConfigurationError("factory_async_not_started", kind=_name(provider.kind))
                made = provider.make(**Scope(self, {}).fill(provider.wishes, _place(provider.make)))
                self._made[provider.kind] = self._endings.enter_context(made) if provider.yields else made
            return self._made[provider.kind]

    async def shared_async(self, provider: Provider) -> Any:
        if not provider.is_async or provider.kind in self._made:
            return self.shared(provider)
        made = provider.make(**await Scope(self, {}).fill_async(provider.wishes, _place(provider.make)))
        made = await self._endings.enter_async_context(made) if provider.yields else await made
        return self._made.setdefault(provider.kind, made)  # two tasks may have made one each; both are closed


class Scope:
    """The dependencies of one run; those made for it are closed with it, in reverse order."""

    def __init__(self, services: Services, given: Mapping[Any, Any]) -> None:
        self._services = services
        self._values: dict[Any, Any] = dict(given)
        self._endings = ExitStack()
        self._async_endings = AsyncExitStack()

    def get(self, kind: type[T]) -> T:
        """Return the dependency of a type."""
        provider = self._known(kind)
        if provider is None:
            return cast(T, self._values[kind])
        if not provider.per_run:
            return cast(T, self._services.shared(provider))
        if provider.is_async:
            raise ConfigurationError("factory_async", kind=_name(kind))
        made = provider.make(**self.fill(provider.wishes, _place(provider.make)))
        self._values[kind] = made = self._endings.enter_context(made) if provider.yields else made
        return cast(T, made)

    async def get_async(self, kind: type[T]) -> T:
        """Return the dependency of a type, also from an async factory."""
        provider = self._known(kind)
        if provider is None or (provider.per_run and not provider.is_async):
            return self.get(kind)
        if not provider.per_run:
            return cast(T, await self._services.shared_async(provider))
        made = provider.make(**await self.fill_async(provider.wishes, _place(provider.make)))
        made = await self._async_endings.enter_async_context(made) if provider.yields else await made
        self._values[kind] = made
        return cast(T, made)

    def build(self, kind: Callable[..., T]) -> T:
        """Make an instance; fill its constructor's parameters by their annotations."""
        return kind(**self.fill(wishes_of(kind, _name(kind)), _place(kind)))

    async def build_async(self, kind: Callable[..., T]) -> T:
        return kind(**await self.fill_async(wishes_of(kind, _name(kind)), _place(kind)))

    def fill(self, wishes: tuple[Wish, ...], who: str) -> dict[str, Any]:
        wanted = {wish.name: wish.kind for wish in wishes if self._can(wish)}
        return {name: logging.getLogger(who) if _is_logger(kind) else self.get(kind) for name, kind in wanted.items()}

    async def fill_async(self, wishes: tuple[Wish, ...], who: str) -> dict[str, Any]:
        filled = {}
        for wish in wishes:
            if self._can(wish):
                filled[wish.name] = logging.getLogger(who) if _is_logger(wish.kind) else await self.get_async(wish.kind)
        return filled

    def _can(self, wish: Wish) -> bool:
        known = wish.kind in self._values or self._services.provider(wish.kind) is not None or _is_logger(wish.kind)
        return known or not wish.optional

    def _known(self, kind: Any) -> Provider | None:
        """Return the provider of a type; None if this run already has the value."""
        if kind in self._values:
            return None
        provider = self._services.provider(kind)
        if provider is None:
            raise ConfigurationError("not_provided", kind=_name(kind))
        return provider

    def close(self) -> None:
        """Close what plain factories made, from a function's thread; :meth:`aclose` also closes the async ones."""
        self._endings.close()

    async def aclose(self) -> None:
        try:
            await self._async_endings.aclose()
        finally:
            self._endings.close()


def wishes_of(made: Callable[..., Any], who: str) -> tuple[Wish, ...]:
    """Return the parameters to fill; refuse a required one without an annotation."""
    try:
        parameters = inspect.signature(made).parameters.values()
    except ValueError:  # a builtin class without a signature has no parameters to fill
        return ()
    wishes = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        optional = parameter.default is not parameter.empty
        kind = _hint(made, parameter)
        if kind is parameter.empty and not optional:
            raise DefinitionError("parameter_not_fillable", who=who, parameter=parameter.name)
        if kind is not parameter.empty and parameter.kind is not parameter.POSITIONAL_ONLY:
            wishes.append(Wish(parameter.name, kind, optional))
    return tuple(wishes)


def _hint(made: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    target = made.__init__ if inspect.isclass(made) else made
    try:
        return get_type_hints(target).get(parameter.name, parameter.empty)
    except (NameError, TypeError) as problem:
        raise DefinitionError(
            "annotation_unreadable", annotation=parameter.annotation, function=_name(made), problem=str(problem)
        ) from None


def _is_factory(made: Any) -> bool:
    return inspect.isclass(made) or inspect.isroutine(made) or isinstance(made, functools.partial)


def _is_logger(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, LOGGERS)


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)


def _place(made: Any) -> str:
    """Return the full name of a class or function, which is the name of its logger (S3-14)."""
    return f"{getattr(made, '__module__', 'horae.services')}.{_name(made)}"
