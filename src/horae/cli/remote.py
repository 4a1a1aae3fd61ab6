"""The verbs of commands behind a service: each asks it, and answers with the values that the near verb would.

The service knows by the token who acts, so *actor* is not sent.
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
def asked(terminal: Terminal) -> Iterator[Far]:
    """The verbs of the service that the terminal names."""
    with client_of(terminal) as client:
        yield Far(client)


@contextmanager
def client_of(terminal: Terminal) -> Iterator[Client]:
    """One who asks the service that the terminal names, until the command is done."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        client = Client(terminal.url or "", terminal.token)
    for warning in told:
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


class Far:
    """A service, asked by a client."""

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
