"""Send webhooks and dispatches, and verify the signatures of those that arrive.

``register`` declares the jobs that call out; ``Rules`` and ``allow_list`` say where they may call; ``verify`` is for
the receiver and needs nothing but the secret. Sending needs ``horae[server]``.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horae.core.outgoing.addresses import allow_list
    from horae.core.outgoing.signatures import SigningSecret, verify
    from horae.core.outgoing.targets import Rules
    from horae.outgoing import MemoryKeyring, Outgoing, new_secret, register

__all__ = ["MemoryKeyring", "Outgoing", "Rules", "SigningSecret", "allow_list", "new_secret", "register", "verify"]

_MODULES = {
    "MemoryKeyring": "horae.outgoing",
    "Outgoing": "horae.outgoing",
    "Rules": "horae.core.outgoing.targets",
    "SigningSecret": "horae.core.outgoing.signatures",
    "allow_list": "horae.core.outgoing.addresses",
    "new_secret": "horae.outgoing",
    "register": "horae.outgoing",
    "verify": "horae.core.outgoing.signatures",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'horae.webhooks' has no attribute {name!r}")
    return getattr(_import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
