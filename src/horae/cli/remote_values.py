"""Between the words of the service and the values that commands show."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from horae.core.access import Token

if TYPE_CHECKING:
    from horae.client import answers


def token(told: answers.Token) -> Token:
    same: dict[str, Any] = {
        each.name: getattr(told, each.name) for each in fields(Token) if each.name not in ("token_id", "digest")
    }
    return Token(token_id=told.id, digest="", **same)
