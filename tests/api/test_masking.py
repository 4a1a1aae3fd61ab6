"""Sensitive arguments: readers see a mask at every door, workers get the real values, edits keep them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from horae.api.values import to_json
from horae.core.jobs.masking import MASK
from horae.errors import InvalidPayload
from horae.service.asgi import ROUTERS
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

SECRET, IBAN = "hunter2-hunter2", "DE02-1234-5678"
names = (f"masked{number}" for number in count())


@pytest.fixture
def name(served: Served, rooms: Sent) -> str:
    """A handler and its queue, for this test alone; readers do not see its `iban`."""
    name = next(names)
    rooms.house.admin.store_definitions([{"name": name, "queue": name, "sensitive": ["iban"]}])
    return name


PAYLOAD = {"user": "ann", "password": SECRET, "iban": IBAN, "max_tokens": 5}
# For a test that reads what others have left behind.
OWN_SECRET, OWN_IBAN = "hunter3-hunter3", "DE03-4321-8765"
OWN_PAYLOAD = {**PAYLOAD, "password": OWN_SECRET, "iban": OWN_IBAN}
SEEN = {"user": "ann", "password": MASK, "iban": MASK, "max_tokens": 5}


def test_a_reader_sees_masks_and_a_worker_the_real_values(rooms: Sent, name: str) -> None:
    job = rooms.house.jobs.enqueue(name, PAYLOAD, queue=name)
    waiting = rooms.house.jobs.get(job.id).payload
    (claimed,) = rooms.house.jobs.claim("w", queues=[name])
    rooms.house.jobs.progress(job.id, claimed.token, {"iban": IBAN, "done": 1}, checkpoint={"token": SECRET})
    rooms.house.jobs.fail(job.id, claimed.token, f"LoginError: {SECRET} refused for {IBAN}", final=True)
    (listed,) = rooms.house.jobs.list(queue=name)
    (run,) = rooms.house.jobs.runs(job.id)
    why = rooms.house.jobs.why(job.id)

    assert (waiting, claimed.payload) == (SEEN, PAYLOAD)
    assert (listed.payload, listed.progress, listed.checkpoint) == (SEEN, {"iban": MASK, "done": 1}, {"token": MASK})
    assert listed.last_error == run.error == "LoginError: … refused for …"
    for answer in (listed, run, why, rooms.house.jobs.revive(job.id), rooms.house.jobs.cancel(job.id)):
        assert SECRET not in json.dumps(to_json(answer))
        assert IBAN not in json.dumps(to_json(answer))


def test_a_rerun_with_edits_keeps_what_is_still_masked(rooms: Sent, name: str) -> None:
    job = rooms.house.jobs.enqueue(name, PAYLOAD, queue=name)
    rooms.house.jobs.cancel(job.id)
    seen = rooms.house.jobs.get(job.id).payload

    rooms.house.jobs.rerun(job.id, payload={**seen, "user": "bob"})
    (again,) = rooms.house.jobs.claim("w", queues=[name])

    assert again.payload == {**PAYLOAD, "user": "bob"}
    with refused(InvalidPayload, "mask_without_value"):
        rooms.house.jobs.rerun(job.id, payload={"new": MASK})


def test_a_schedule_is_masked_and_changed_around_its_secrets(rooms: Sent, served: Served, name: str) -> None:
    made = rooms.house.schedules.create(name, handler=name, every=3600, queue=name, payload=PAYLOAD)
    changed = rooms.house.schedules.change(name, payload={**made.payload, "user": "bob"})
    stored = served.world.store.read(lambda tx: tx.schedules.get(name, "system"))
    told = json.dumps([to_json(each) for each in rooms.house.schedules.versions(name)])

    assert (made.payload, rooms.house.schedules.get(name).payload) == (SEEN, {**SEEN, "user": "bob"})
    assert changed.payload == {**SEEN, "user": "bob"}
    assert stored is not None
    assert stored.payload == {**PAYLOAD, "user": "bob"}
    assert SECRET not in told, "the audit keeps it for ever"
    assert IBAN not in told
    with refused(InvalidPayload, "mask_without_value"):
        rooms.house.schedules.change(name, handler="other", payload={"password": MASK})


@pytest.fixture
def asked(served: Served) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {served.token('system', 'admin')}"}
    with httpx.Client(base_url=served.url, headers=headers, timeout=60) as client:
        yield client


def readable(values: dict[str, Any]) -> Iterator[str]:
    """Every path that is read, with these values in the place of its names."""
    for router in ROUTERS:
        for route in router.routes:
            path = getattr(route, "path", "")
            if "GET" in getattr(route, "methods", ()) and not path.endswith(("/stream", "/wait")):
                yield path.replace(":path", "").format_map(values)


@pytest.mark.parametrize("rooms", ["local"], indirect=True)
def test_no_path_that_is_read_tells_a_secret(rooms: Sent, served: Served, name: str, asked: httpx.Client) -> None:
    rooms.house.schedules.create(name, handler=name, every=3600, queue=name, payload=OWN_PAYLOAD)
    job = rooms.house.jobs.enqueue(name, OWN_PAYLOAD, queue=name)
    (claimed,) = rooms.house.jobs.claim("w", queues=[name])
    rooms.house.jobs.fail(job.id, claimed.token, f"LoginError: password={OWN_SECRET}", final=True)
    values = _Values(job_id=job.id, key=name, name=name, run_id=f"{job.id}.{claimed.token}", task_id=name)
    answers = [asked.get(path) for path in readable(values)]
    answers += [asked.get("/admin/job/get", params={"id": name}), asked.get("/scheduler/executions")]

    assert sum(answer.status_code == 200 for answer in answers) > 20
    assert any(MASK in answer.text for answer in answers)
    assert [str(answer.url) for answer in answers if OWN_SECRET in answer.text or OWN_IBAN in answer.text] == []


class _Values(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return "x"
