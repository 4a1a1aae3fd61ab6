"""Tokens, for operators."""

from __future__ import annotations

from collections.abc import Iterable

from horae.api.operation import DELETE, PAGES, POST, Call, Listing, Room, S
from horae.api.values import given
from horae.client import reading
from horae.client.answers import Token, TokenMade


class Tokens(Room[S]):
    """Needs a token with the scope ``admin``."""

    @POST("/tokens")
    def create(
        self,
        owner: str,
        scopes: Iterable[str],
        *,
        name: str = "",
        queues: Iterable[str] = (),
        expires_in_days: float | None = 90,
    ) -> Call[TokenMade]:
        """Make a token; its text is in ``token``, this once. With *expires_in_days* None it lives until revoked."""
        body = given(owner=owner, scopes=list(scopes), name=name, queues=list(queues))
        return Call(read=reading.one(TokenMade), body={**body, "expires_in_days": expires_in_days})

    @PAGES("/tokens")
    def list(self, *, owner: str | None = None, limit: int | None = None) -> Listing[Token]:
        """The tokens there are, newest first, without their secrets."""
        return Listing(Call(read=reading.page(Token), query=given(owner=owner)), limit)

    @DELETE("/tokens/{token_id}")
    def revoke(self, token_id: str, *, reason: str = "") -> Call[Token]:
        """Let nobody be recognised by it any more; what waits with it ends within a second."""
        query = given(reason=reason or None)
        return Call(read=reading.one(Token), at={"token_id": token_id}, query=query, repeats=True)
