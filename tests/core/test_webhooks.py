"""What a webhook may say when it is saved: the same that is checked when it is sent."""

from typing import Any

import pytest

from horae.core.outgoing.targets import Rules
from horae.core.outgoing.webhooks import check_webhook
from horae.errors import InvalidInput

CANARY = "CANARY-5f3a"
URL = "https://example.org/hook"


@pytest.mark.parametrize(
    "payload",
    [
        {"url": URL},
        {"url": {"$secret": "slack"}},
        {"url": URL, "body": [1, {"$secret": "a"}], "headers": {"X-A": "b"}, "secret": "orders"},
        {"url": URL, "headers": {"Authorization": {"$secret": "api"}, "x-key": {"$secret": "key"}}},
        {"url": URL, "headers": None, "secret": {"$secret": "orders"}},
    ],
)
def test_what_can_be_delivered_may_be_saved(payload: dict[str, Any]) -> None:
    check_webhook(payload, Rules())


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"url": 7},
        {"url": "http://example.org/"},
        {"url": "https://127.0.0.1/"},
        {"url": {"$secret": f"whsec_{CANARY}"}},
        {"url": URL, "method": "GET"},
        {"url": URL, "headers": {"Authorization": f"Bearer {CANARY}"}},
        {"url": URL, "headers": {"Cookie": {"$secret": "a"}}},
        {"url": URL, "headers": {"x-a": f"{CANARY}\r\nx-b: c"}},
        {"url": URL, "headers": [CANARY]},
        {"url": URL, "headers": {f"x-{number}": "a" for number in range(21)}},
        {"url": URL, "body": {"$secret": "a", "value": CANARY}},
        {"url": URL, "secret": f"whsec_{CANARY}"},
        {"url": URL, "secret": {"value": CANARY}},
        {"url": URL, "secret": 7},
    ],
)
def test_what_could_never_be_delivered_is_refused_and_no_secret_is_repeated(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_webhook(payload, Rules())
    assert CANARY not in str(refused.value)
