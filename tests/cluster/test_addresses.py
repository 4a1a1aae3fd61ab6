"""Passwords of a cluster's databases: never in the map, and never sent to another host than they are for."""

import pytest

from horae.core.cluster.shard_map import Member
from horae.errors import ConfigurationError
from horae.settings import Settings, effective_settings
from horae.stores.cluster.addresses import full_url, public_address, read_urls

FIRST = "postgresql://horae:s3cret@db1:5432/one"


def test_an_address_in_the_map_has_no_password() -> None:
    given = "postgresql://horae:s3cret@db2/two?sslmode=require&password=s3cret&sslpassword=s3cret"
    assert public_address(given, FIRST) == "postgresql://horae@db2/two?sslmode=require"


def test_another_database_of_the_same_server_and_user_is_opened_with_the_password_of_the_first() -> None:
    member = Member(2, "two", "postgresql://horae@db1:5432/two")
    assert full_url(member, FIRST, {}) == "postgresql://horae:s3cret@db1:5432/two"


@pytest.mark.parametrize("address", ["horae@db2:5432/two", "horae@db1:5433/two", "mallory@db1:5432/two", "db1/two"])
def test_no_other_host_port_or_user_gets_the_password_of_the_first(address: str) -> None:
    assert "s3cret" not in full_url(Member(2, "two", f"postgresql://{address}"), FIRST, {})


def test_a_setting_gives_the_url_of_a_member() -> None:
    given = read_urls("two=postgresql://a:b@db2/two three=sqlite:////tmp/c.db")
    assert full_url(Member(2, "two", "postgresql://x@y/z"), FIRST, given) == "postgresql://a:b@db2/two"


def test_a_pair_that_cannot_be_read_is_refused_without_its_secret() -> None:
    for text in ("two", "two=", "postgresql://a:s3cret@db2/two", "two=no-url-s3cret"):
        with pytest.raises(ConfigurationError) as refused:
            read_urls(text)
        assert "s3cret" not in str(refused.value)


def test_the_urls_of_members_are_masked_where_settings_are_shown() -> None:
    environment = {"HORAE_CLUSTER_URLS": "two=postgresql://a:s3cret@db2/two"}
    shown = effective_settings(Settings.read(environment), environment)
    assert "s3cret" not in repr(shown)


def test_files_in_one_folder_are_named_without_it_so_that_they_can_be_moved_together() -> None:
    assert public_address("sqlite:////data/b.db", "sqlite:////data/a.db") == "sqlite:///b.db"
    assert full_url(Member(2, "b", "sqlite:///b.db"), "sqlite:////moved/a.db", {}) == "sqlite:////moved/b.db"
    assert public_address("sqlite:////other/b.db", "sqlite:////data/a.db") == "sqlite:////other/b.db"


def test_a_database_in_memory_cannot_be_a_member() -> None:
    with pytest.raises(ConfigurationError):
        public_address("sqlite://", "sqlite://")
