"""The first minute: ``horae up`` tells its story, goes on serving, and ends with Ctrl-C."""

import signal
from collections.abc import Callable

from tests.cli.conftest import Command, Process


def test_up_tells_a_story_serves_on_and_ends_in_order(horae: Command, start: Callable[..., Process]) -> None:
    up = start("up", "--json")
    answer = up.until("story_told")
    revived = horae("job", "revive", "job_5", "--json").json["id"] == "job_5"
    greeting = next(each for each in up.events() if "printed" in each.get("text", ""))
    up.started.send_signal(signal.SIGINT)
    ended = up.ended()

    assert sorted(answer["jobs"].values()) == ["dead", "succeeded", "succeeded", "succeeded", "succeeded"]
    assert revived
    assert greeting["job_id"] == "job_5"
    assert ended.code == 0, ended.err
