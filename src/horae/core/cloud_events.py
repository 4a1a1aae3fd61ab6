"""What CloudEvents 1.0 say about headers, for events that go out by HTTP and by a message bus."""

from __future__ import annotations

# What a header may hold as it is: printable ASCII without space, quotation mark and percent sign.
_SAFE = frozenset(range(0x21, 0x7F)) - set(b'"%')


def header_value(text: str) -> str:
    """Write text so that a header can hold it: everything but safe characters percent-encoded."""
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in text.encode())
