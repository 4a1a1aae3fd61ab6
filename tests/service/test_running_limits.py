"""Limits of what runs at once over HTTP: read with their origin, set, reset (S3-53)."""

import pytest
from fastapi.testclient import TestClient

from horae.actions.jobs.running_limits import declare_limits
from horae.core.jobs.running_limits import LimitSource
from horae.ports.world import World


def test_a_limit_is_set_read_with_its_origin_and_reset(world: World, operator: TestClient) -> None:
    declare_limits(world, "shop", {"group:etl": LimitSource("group:etl", "shop", "file", 5)})

    done = operator.put("/limits/group:etl", json={"max_running": 2, "reason": "the disk is slow"}).json()
    lifted = operator.put("/limits/global", json={"max_running": None}).json()
    listed = operator.get("/limits").json()["items"]
    reset = operator.delete("/limits/group:etl").json()

    assert done == {
        "name": "group:etl",
        "max_running": 2,
        "source": "api",
        "running": 0,
        "sources": [
            {"app": None, "source": "api", "max_running": 2},
            {"app": "shop", "source": "file", "max_running": 5},
        ],
    }
    assert (lifted["max_running"], lifted["source"]) == (None, "api")
    assert [each["name"] for each in listed] == ["global", "group:etl"]
    assert (reset["max_running"], reset["source"]) == (5, "file")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("nonsense", {"max_running": 1}),
        ("group:", {"max_running": 1}),
        ("group:a%20b", {"max_running": 1}),
        ("global", {"max_running": 0}),
        ("global", {"max_running": True}),
        ("global", {"max_running": 10**9}),
        ("global", {}),
    ],
)
def test_what_names_no_limit_or_cannot_be_kept_is_refused(
    operator: TestClient, name: str, body: dict[str, object]
) -> None:
    assert operator.put(f"/limits/{name}", json=body).status_code == 422
    assert operator.get("/limits").json()["items"] == []


def test_only_an_operator_may_see_or_set_them(alice: TestClient) -> None:
    assert alice.get("/limits").status_code == 403
    assert alice.put("/limits/global", json={"max_running": 1}).status_code == 403
    assert alice.delete("/limits/global").status_code == 403
