"""Every text has its Chinese, with the same facts in it, and none is said in English alone."""

import re

import pytest

from horae.console import texts
from scripts import texts as catalogues

PLACEHOLDER = re.compile(r"%\((\w+)\)")
# Texts that are the same in both languages: names and figures.
SAME = {"UTC", "JSON"}


@pytest.fixture(autouse=True)
def in_english() -> None:
    texts.choose("en")


def test_no_text_is_without_its_chinese() -> None:
    assert catalogues.missing("zh_CN") == []


def test_the_catalogue_is_what_the_sources_say() -> None:
    assert catalogues.catalogue_path("zh_CN").read_bytes() == catalogues.updated("zh_CN"), (
        "run: python -m scripts.texts"
    )


def test_a_translation_has_the_facts_of_its_text() -> None:
    wrong = []
    for message in catalogues.read("zh_CN"):
        forms, strings = as_forms(message.id), as_forms(message.string)
        counts = {"num", "count"} if len(forms) > 1 else set[str]()
        known = set().union(*(PLACEHOLDER.findall(form) for form in forms)) | counts
        needed = set(PLACEHOLDER.findall(forms[-1])) - counts
        wrong += [forms[0] for string in strings if not needed <= set(PLACEHOLDER.findall(string)) <= known]
    assert wrong == []


def as_forms(texts: object) -> tuple[str, ...]:
    return tuple(map(str, texts)) if isinstance(texts, tuple | list) else (str(texts or ""),)


def test_chinese_is_chinese() -> None:
    """No translation is left as it was, and Chinese sentences have Chinese punctuation."""
    left = [
        message.id
        for message in catalogues.read("zh_CN")
        if isinstance(message.id, str) and message.string == message.id and message.id not in SAME
    ]
    assert left == []
    half_width = re.compile(r"[\u4e00-\u9fff][,;:!?]|[,;:!?][\u4e00-\u9fff]")
    assert [each.string for each in catalogues.read("zh_CN") if half_width.search(str(each.string))] == []


def test_a_text_follows_the_language_of_the_request() -> None:
    assert texts.gettext("Home") == "Home"
    texts.choose("zh")
    assert texts.gettext("Home") == "首页"
    assert texts.ngettext("One worker is at work.", "%(num)s workers are at work.", 2) == "2 个 worker 在工作。"
    assert texts.gettext("this is in no catalogue") == "this is in no catalogue"


def test_the_pseudo_locale_marks_texts_and_keeps_their_facts() -> None:
    texts.choose("qps")
    assert texts.gettext("now %(time)s", time="12:00").startswith("⟦ñów 12:00")


@pytest.mark.parametrize(
    ("given", "header", "expected"),
    [
        ((None, None), "", "en"),
        ((None, None), "zh-CN,zh;q=0.9", "zh"),
        (("zh", "en"), "", "zh"),
        ((None, "zh"), "en", "zh"),
        (("fr", None), "fr", "en"),
    ],
)
def test_the_language_is_what_was_asked_for_then_chosen_then_preferred(
    given: tuple[str | None, ...], header: str, expected: str
) -> None:
    assert texts.locale_from(*given, accept_language=header) == expected
