"""Generated pages say what the code says."""

import re
from dataclasses import fields

import pytest
import typer

from horae.cli.main import command_tree
from horae.settings import Settings
from scripts.docs import PAGES, REFERENCE, commands, json_section, shown_default


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs` and commit the result"


def test_every_setting_states_what_applies_when_it_is_not_set() -> None:
    assert [each.name for each in fields(Settings) if not shown_default(each).strip("`")] == []


def test_a_default_is_shown_as_the_environment_would_spell_it() -> None:
    spelled = {each.metadata["env"]: shown_default(each).strip("`") for each in fields(Settings) if each.default}

    assert Settings.read(spelled) == Settings()


def test_the_json_of_every_command_is_described() -> None:
    described = set[str]()
    for cell in re.findall(r"^\| (`.*?`) \|", json_section(), re.MULTILINE):
        group = ""
        for name in re.findall(r"`([a-z -]+)`", cell):
            group = name.rpartition(" ")[0] or group
            described |= {name, f"{group} {name}".strip()}

    tree = commands(typer.main.get_command(command_tree()), "horae")
    assert [name for name, _ in tree if name.removeprefix("horae ") not in described] == []
