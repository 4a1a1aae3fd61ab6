"""The operations of commands behind a service; they return the same values as those on a database.

The service knows by the token who acts, so the actor is not sent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from horae.cli.terminal import Terminal
from horae.client.client import Client
from horae.clock import SystemClock
from horae.errors import Forbidden, Unauthorized


@contextmanager
def open_remote(terminal: Terminal) -> Iterator[RemoteVerbs]:
    """Yield the operations of the service that the terminal names."""
    with client_of(terminal) as client:
        yield RemoteVerbs(client)


@contextmanager
def client_of(terminal: Terminal) -> Iterator[Client]:
    """Yield a client of the service that the terminal names, until the command is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        language = "en" if terminal.is_json else terminal.language
        client = Client(terminal.url or "", terminal.token, language=language)
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


class RemoteVerbs:
    """The operations of a service, through a client."""

    def __init__(self, client: Client) -> None:
        self.now = SystemClock().now
        self.moment = nullcontext
        self.jobs = client.jobs
        self.queues, self.limits, self.attention = client.queues, client.limits, client.attention
        self.schedules = client.schedules
        self.tokens, self.audit = client.tokens, client.audit

    def on_hints(self, listener: Callable[[], None], /) -> Callable[[], None]:
        """Do nothing: a service has no hints for a terminal, which asks it every second."""
        return lambda: None
