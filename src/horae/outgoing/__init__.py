"""Calling out: webhooks and the dispatch to an orchestrator. Needs the extra ``server``."""

from horae.outgoing.breakers import Breakers
from horae.outgoing.calls import Answer, Calls, Limits
from horae.outgoing.dispatch import Dispatcher, Orchestrator
from horae.outgoing.encryption import KeySealer, sealer_from
from horae.outgoing.keyring import Keyring, MemoryKeyring, StoreKeyring, new_secret
from horae.outgoing.registration import Outgoing, Registered, register
from horae.outgoing.tenants import StoreRules, StoreTasks
from horae.outgoing.webhook import Webhooks

__all__ = [
    "Answer",
    "Breakers",
    "Calls",
    "Dispatcher",
    "KeySealer",
    "Keyring",
    "Limits",
    "MemoryKeyring",
    "Orchestrator",
    "Outgoing",
    "Registered",
    "StoreKeyring",
    "StoreRules",
    "StoreTasks",
    "Webhooks",
    "new_secret",
    "register",
    "sealer_from",
]
