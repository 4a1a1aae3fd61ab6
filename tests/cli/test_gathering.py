"""`horae job enqueue --debounce …` and `--collect …`."""

from __future__ import annotations

from tests.cli.conftest import Command


def test_the_last_call_wins_and_the_answer_says_when_it_runs(horae: Command) -> None:
    call = ("job", "enqueue", "index", "--debounce", "1h", "--max-wait", "2h", "--by", "doc 7")
    first = horae(*call, "--arg", "n=1", "--json").json
    second = horae(*call, "--arg", "n=2")

    assert (first["gathered"], first["deduplicated"]) == (1, False)
    assert second.out.startswith(f"{first['id']} debounces 2 calls so far: index in queue default, due ")
    assert horae("job", "show", first["id"], "--json").json["job"]["payload"] == {"n": 2}
    assert "unless another call puts it off" in horae("job", "show", first["id"]).out


def test_values_are_collected_and_shown(horae: Command) -> None:
    call = ("job", "enqueue", "index", "--collect", "10", "--within", "1h")
    first = horae(*call, "--args", '{"items": [1]}').out
    horae(*call, "--args", '{"items": [2, 3]}')
    job = first.split()[0]

    assert " collects 1 value so far" in first
    assert horae("job", "show", job, "--json").json["job"]["collected"] == 3
    assert "collected" in horae("job", "show", job).out


def test_a_key_without_debounce_or_collect_is_refused(horae: Command) -> None:
    refused = horae("job", "enqueue", "index", "--by", "doc 7")

    assert refused.code == 2
    assert "--debounce or --collect" in refused.err
