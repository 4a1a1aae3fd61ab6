"""The Python client of the HTTP service. Needs the extra ``client``."""

from horae.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
