"""Secrets that webhooks refer to by name."""

from __future__ import annotations

from horae.api.operation import DELETE, GET, POST, PUT, Call, Room, S
from horae.api.values import given
from horae.client import reading
from horae.client.answers import Secret, SecretMade


class Secrets(Room[S]):
    """Values go in and never come out, except once for those that the service makes."""

    @GET("/secrets")
    def list(self) -> Call[tuple[Secret, ...]]:
        """Names of your secrets."""
        return Call(read=reading.many(Secret, "items"))

    @PUT("/secrets/{name}")
    def put(self, name: str, value: str | None = None, *, keep_previous_for: int | None = None) -> Call[SecretMade]:
        """Keep a secret, or replace it; without a *value* a signing secret is made and told once.

        For *keep_previous_for* seconds messages are signed with the one before as well.
        """
        body = given(value=value, keep_previous_for=keep_previous_for)
        return Call(read=reading.one(SecretMade), at={"name": name}, body=body)

    @POST("/secrets/{name}/rotate")
    def rotate(self, name: str, *, keep_previous_for: int | None = None) -> Call[SecretMade]:
        """A new signing secret, told once."""
        return Call(read=reading.one(SecretMade), at={"name": name}, body=given(keep_previous_for=keep_previous_for))

    @DELETE("/secrets/{name}")
    def delete(self, name: str) -> Call[None]:
        """Forget a secret."""
        return Call(read=reading.nothing, at={"name": name})

    @POST("/secrets/reseal")
    def reseal(self) -> Call[int]:
        """Seal all secrets of all tenants with the operator's current key; says how many."""
        return Call(read=lambda answer: int(reading.body(answer)["resealed"]), repeats=True)
