"""The Python client of the HTTP service. Needs the extra ``server``."""

from horae.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
