"""The operations of commands behind a service; they return the same values as those on a database.

The service knows by the token who acts, so the actor is not sent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import TypeVar

from horae.cli.terminal import Terminal
from horae.cli.verbs import Verbs
from horae.client.client import Client
from horae.clock import SystemClock
from horae.errors import Forbidden, Unauthorized

C = TypeVar("C", bound=Client)


class RemoteVerbs(Client, Verbs):
    """The operations of a service."""

    def now(self) -> datetime:
        return SystemClock().now()

    def moment(self) -> AbstractContextManager[None]:
        """Do nothing: each answer of a service is consistent by itself."""
        return nullcontext()

    def on_hints(self, listener: Callable[[], None], /) -> Callable[[], None]:
        """Do nothing: a service has no hints for a terminal, which asks it every second."""
        return lambda: None


def open_remote(terminal: Terminal) -> AbstractContextManager[RemoteVerbs]:
    """Open the operations of the service that the terminal names."""
    return client_of(terminal, RemoteVerbs)


@contextmanager
def client_of(terminal: Terminal, kind: type[C]) -> Iterator[C]:
    """Yield a client of the service that the terminal names, until the command is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        language = "en" if terminal.is_json else terminal.language
        client = kind(terminal.url or "", terminal.token, language=language)
    for warning in caught:
        terminal.say(f"warning: {warning.message}")
    with client:
        try:
            yield client
        except Unauthorized as problem:
            if terminal.token:
                raise Unauthorized("service_refuses_token", problem=str(problem)) from problem
            raise Unauthorized("service_wants_token", problem=str(problem)) from problem
        except Forbidden as problem:
            raise Forbidden("service_forbids", problem=str(problem)) from problem
