"""``horae audit verify``: sound or not, in words, JSON and exit code."""

from sqlalchemy import create_engine, text

from tests.cli.conftest import Command


def test_a_forged_entry_is_named_and_the_exit_code_says_so(horae: Command) -> None:
    """Security check 19."""
    horae("db", "migrate", "--db", "sqlite:///a.db")
    horae("queue", "pause", "mail", "--reason", "upgrade", "--db", "sqlite:///a.db")
    ended = horae("audit", "verify", "--db", "sqlite:///a.db", "--json")
    assert (ended.code, ended.json["sound"]) == (0, True)
    with create_engine("sqlite:///a.db").begin() as connection:
        connection.execute(text("DROP TRIGGER horae_audit_no_change"))
        connection.execute(text("UPDATE horae_audit SET reason = 'nothing'"))

    ended = horae("audit", "verify", "--db", "sqlite:///a.db")

    assert ended.code == 6
    assert "entry 1 was changed" in ended.out
