"""Addresses of a cluster's databases: without passwords in the map, whole when a database is opened."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import URL, make_url

from horae.core.cluster.shard_map import Member
from horae.errors import ConfigurationError
from horae.stores.opening import is_sqlite, read_url, sqlite_path

SECRET = ("password", "passwd", "pass", "sslpassword", "passfile")  # options of a URL that must not be stored


def public_address(url: str, beside: str) -> str:
    """Return what the map may say of a database: no password; a file in the folder of the first by its name alone."""
    parsed = read_url(url)
    path, first = sqlite_path(parsed), sqlite_path(read_url(beside))
    if path is not None:
        near = first is not None and path.resolve().parent == first.resolve().parent
        return f"sqlite:///{path.name if near else path.resolve()}"
    if is_sqlite(parsed):
        raise ConfigurationError("cluster_database_in_memory")
    kept = {name: value for name, value in parsed.query.items() if name.lower() not in SECRET}
    bare = URL.create(parsed.drivername, parsed.username, None, parsed.host, parsed.port, parsed.database, kept)
    return bare.render_as_string(hide_password=False)  # `set` takes None for a part that stays


def full_url(member: Member, first_url: str, given: Mapping[str, str]) -> str:
    """Return the URL that opens a member: as a setting gives it, else its address.

    It gets the password of the first database only where host, port and user are the same: a role that can
    change a row of the map must not have it sent elsewhere.
    """
    if member.name in given:
        return given[member.name]
    address, first = read_url(member.address), read_url(first_url)
    path, near = sqlite_path(address), sqlite_path(first)
    if path is not None:
        return member.address if path.is_absolute() or near is None else f"sqlite:///{near.parent / path}"
    if is_sqlite(address):
        return member.address
    if first.password is not None and _who(address) == _who(first):
        address = address.set(password=first.password)
    return address.render_as_string(hide_password=False)


def _who(url: URL) -> tuple[str | None, int | None, str | None, object]:
    return url.host, url.port, url.username, url.query.get("host")


def read_urls(text: str | None) -> dict[str, str]:
    """Return the URLs of members by name, from ``name=url`` pairs separated by blanks."""
    urls: dict[str, str] = {}
    for pair in (text or "").split():
        name, equals, url = pair.partition("=")
        try:
            make_url(url)
        except Exception:
            equals = ""
        if not equals:
            raise ConfigurationError("cluster_urls_unreadable", name=name[:40] if "/" not in name else "…") from None
        urls[name] = url
    return urls
