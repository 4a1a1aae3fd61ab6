"""Fair queues and weights from a shell."""

from tests.cli.conftest import Command


def test_a_queue_is_shared_and_shown(horae: Command) -> None:
    assert horae("db", "migrate").code == 0
    assert "mail: owners take turns, by priority" in horae("queue", "set", "mail", "--fair", "owner").out
    assert "owners take turns" in horae("queue", "show", "mail").out
    assert "open, fair" in horae("queue", "list").out
    changed = horae("queue", "set", "mail", "--fair", "none", "--order", "run_at", "--json").json
    assert (changed["fair"], changed["order"]) == (None, "run_at")
    assert "first come, first served" in horae("queue", "show", "mail").out
    assert horae("queue", "set", "mail").code == 2
    assert horae("queue", "set", "mail", "--fair", "handler").code == 2


def test_an_owner_gets_a_weight_and_keeps_its_other_settings(horae: Command) -> None:
    assert horae("db", "migrate").code == 0
    assert horae("owner", "list").out.strip() == "No owner needs anything special."
    assert "acme has weight 3" in horae("owner", "set", "acme", "--weight", "3").out
    assert horae("owner", "show", "acme", "--json").json["weight"] == 3
    assert "acme" in horae("owner", "list").out
    assert horae("owner", "set", "acme", "--weight", "0").code == 2
