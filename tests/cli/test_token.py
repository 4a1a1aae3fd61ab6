"""Tokens from the shell: shown once, listed without their secret, revoked at once."""

import pytest

from tests.cli.conftest import Command


def test_a_token_is_made_listed_and_revoked(horae: Command) -> None:
    made = horae(
        "token", "create", "--owner", "alice", "--scopes", "tasks,worker", "--expires", "90d", "--queues", "mail,sums",
        "--name", "laptop", "--json",
    ).json  # fmt: skip
    assert made["token"].startswith(f"horae_{made['id']}_")
    assert (made["owner"], made["scopes"], made["queues"]) == ("alice", ["tasks", "worker"], ["mail", "sums"])
    assert made["expires_at"].endswith("Z")

    listed = horae("token", "list", "--owner", "alice", "--json")
    assert [each["id"] for each in listed.json["items"]] == [made["id"]]
    assert made["token"] not in listed.out
    assert horae("token", "list", "--owner", "bob", "--json").json["items"] == []
    assert "laptop" in horae("token", "list").out

    assert horae("token", "revoke", made["id"], "--reason", "lost", "--json").json["state"] == "revoked"
    assert horae("token", "list", "--json").json["items"][0]["state"] == "revoked"


def test_the_list_goes_on_after_the_page_before(horae: Command) -> None:
    made = {horae("token", "create", "--owner", "alice", "--json").json["id"] for _ in range(3)}
    first = horae("token", "list", "--limit", "2", "--json").json
    last = horae("token", "list", "--limit", "2", "--cursor", first["next_cursor"], "--json").json
    assert last["next_cursor"] is None
    assert {each["id"] for each in first["items"] + last["items"]} == made
    assert f"--cursor {first['next_cursor']}" in horae("token", "list", "--limit", "2").err
    assert horae("token", "list", "--cursor", "nonsense").code == 2


def test_the_token_alone_is_the_result_so_that_a_script_can_take_it(horae: Command) -> None:
    made = horae("token", "create", "--owner", "alice", "--expires", "never")
    assert len(made.out.split()) == 1
    assert made.out.startswith("horae_")
    assert "until it is revoked" in made.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--owner", "alice", "--scopes", "everything"), "tasks, worker, read, review, admin"),
        (("--owner", "alice", "--expires", "soon"), "90s"),
        (("--owner", "alice", "--expires", "1s"), "minute"),
        (("--owner", " "), "printable"),
        ((), "--owner"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(arguments: tuple[str, ...], words: str, horae: Command) -> None:
    refused = horae("token", "create", *arguments)
    assert refused.code == 2
    assert words in refused.err


def test_an_unknown_token_cannot_be_revoked(horae: Command) -> None:
    horae("token", "create", "--owner", "alice")
    assert horae("token", "revoke", "000000000000").code == 3
