"""Chains of hashes: each link holds every one before it in place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

GENESIS = "0" * 64


def hash_link(previous: str, body: Mapping[str, Any]) -> str:
    """Return the hash of what comes after *previous*; the order of names does not matter."""
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(f"{previous}{text}".encode()).hexdigest()
