"""Tenants, as the operator sees and sets them."""

from __future__ import annotations

from collections.abc import Iterable

from horae.api.operation import GET, PAGES, PUT, Call, Listing, Room, S
from horae.api.values import given
from horae.client import reading
from horae.client.answers import Owner


class Owners(Room[S]):
    """What is special about each tenant; needs an operator's token."""

    @PAGES("/owners")
    def list(self, *, limit: int | None = None) -> Listing[Owner]:
        """Tenants by name."""
        return Listing(Call(read=reading.page(Owner)), limit)

    @GET("/owners/{owner}")
    def get(self, owner: str) -> Call[Owner]:
        """What was decided about one tenant."""
        return Call(read=reading.one(Owner), at={"owner": owner})

    @PUT("/owners/{owner}")
    def put(
        self,
        owner: str,
        *,
        allow_networks: Iterable[str] = (),
        allow_http: bool = False,
        ports: Iterable[int] = (),
        max_enabled_tasks: int | None = None,
    ) -> Call[Owner]:
        """Decide about a tenant; what is left out is as for everybody, whatever was decided before."""
        body = given(
            allow_networks=list(allow_networks),
            allow_http=allow_http,
            ports=list(ports),
            max_enabled_tasks=max_enabled_tasks,
        )
        return Call(read=reading.one(Owner), at={"owner": owner}, body=body)
