"""What handlers depend on, found by type.

An application provides a value or a factory for a type; a job asks for it by annotation or with ``ctx.get(Type)``.
What is made for the application lives until it stops, what is made for a run ends with the run. Nothing is guessed:
only types somebody provided, the context, and loggers can be had.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_type_hints

from horae.errors import ConfigurationError, DefinitionError

T = TypeVar("T")
LOGGERS: tuple[type, ...] = (logging.Logger, logging.LoggerAdapter)


@dataclass(frozen=True, slots=True)
class Wish:
    """One parameter that wants to be filled."""

    name: str
    kind: Any
    optional: bool


@dataclass(frozen=True, slots=True)
class Provider:
    """How a thing of one type is had."""

    kind: Any
    make: Callable[..., Any]
    wishes: tuple[Wish, ...]
    is_async: bool = False
    per_run: bool = False
    yields: bool = False  # a generator: what follows its yield cleans up


class Services:
    """All that an application provides."""

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
        """What one run may ask for; *given* are the things only it has."""
        return Scope(self, given)

    def problems(
        self, wishes: tuple[Wish, ...], given: tuple[type, ...], *, sync: bool, path: tuple[Any, ...] = ()
    ) -> Iterator[str]:
        """Why these wishes cannot be fulfilled, each as a sentence that says what to do."""
        for wish in wishes:
            if wish.optional or _is_logger(wish.kind) or wish.kind in given:
                continue
            provider = self._providers.get(wish.kind)
            if provider is None:
                name = _name(wish.kind)
                yield f"nothing provides its {wish.name}: {name}; add app.provide({name}, …)"
            elif wish.kind in path:
                circle = " → ".join(_name(kind) for kind in (*path[path.index(wish.kind) :], wish.kind))
                yield f"its dependencies need each other in a circle: {circle}; let one of them be made later"
            elif sync and provider.is_async and provider.per_run:
                yield f"its {_name(wish.kind)} comes from an async factory; make run an async function"
            else:
                within = given if provider.per_run else ()
                yield from self.problems(provider.wishes, within, sync=sync, path=(*path, wish.kind))

    # -- what lives as long as the application -------------------------------------------------------------------

    async def open(self) -> None:
        """Make the things of async factories now, so that plain functions can ask for them too."""
        self._users += 1
        for provider in list(self._providers.values()):
            if provider.is_async and not provider.per_run:
                await self.shared_async(provider)

    async def close(self) -> None:
        """End what was made, once the last who opened has closed."""
        self._users -= 1
        if self._users <= 0:
            self._users = 0
            endings, self._endings = self._endings, AsyncExitStack()
            self._made.clear()
            await endings.aclose()

    def shared(self, provider: Provider) -> Any:
        """The application's one thing of that type, made when it is first asked for."""
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
        return self._made.setdefault(provider.kind, made)  # two may have been at it; both end with the application


class Scope:
    """The things of one run; whatever was made for it ends with it, the last first."""

    def __init__(self, services: Services, given: Mapping[Any, Any]) -> None:
        self._services = services
        self._values: dict[Any, Any] = dict(given)
        self._endings = ExitStack()
        self._async_endings = AsyncExitStack()

    def get(self, kind: type[T]) -> T:
        """The thing of that type."""
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
        """The same, also where the factory is async."""
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
        """A fresh instance, its constructor's parameters filled by their annotations."""
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
        """The provider to ask; None where the thing is already here."""
        if kind in self._values:
            return None
        provider = self._services.provider(kind)
        if provider is None:
            raise ConfigurationError("not_provided", kind=_name(kind))
        return provider

    def close(self) -> None:
        """From a plain function's thread; what an async factory made is ended by :meth:`aclose`."""
        self._endings.close()

    async def aclose(self) -> None:
        try:
            await self._async_endings.aclose()
        finally:
            self._endings.close()


def wishes_of(made: Callable[..., Any], who: str) -> tuple[Wish, ...]:
    """Which parameters want to be filled; one that cannot be is refused."""
    try:
        parameters = inspect.signature(made).parameters.values()
    except ValueError:  # a builtin class without a signature takes nothing we could give
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
    """The full name of a class or function: the name of the logger that it gets (S3-14)."""
    return f"{getattr(made, '__module__', 'horae.services')}.{_name(made)}"
