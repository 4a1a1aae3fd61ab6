"""Every sentence exists in both languages, says the same things, and is found for whoever asks for it."""

from __future__ import annotations

import re
from dataclasses import fields
from string import Formatter

import pytest

from horae.core.governance.entries import EVENTS, OBJECT_VERBS
from horae.core.jobs.job import ON_PARENT_DEAD
from horae.core.jobs.reasons import Reason
from horae.errors import ConfigurationError, HandlerFailed, InvalidInput, NotAllowed, NotFound
from horae.settings import Settings
from horae.words import audit, sentences, service
from horae.words.chinese import tables
from horae.words.languages import Language, from_environment
from horae.words.sentences import WHY, sentence, setting_help, verb_phrase, why_line
from tests.architecture.reading import SOURCE, modules
from tests.architecture.verbs import audit_verbs

TABLES = {
    **{f"errors of {room}": (sentences.ROOMS[room], tables.ROOMS[room]) for room in sentences.ROOMS},
    **{f"why of {room}": (sentences.REASONS[room], tables.REASONS[room]) for room in sentences.REASONS},
    "verbs of the audit": (audit.VERBS, tables.VERBS),
    "problems of the service": (service.PROBLEMS, tables.PROBLEMS),
}
HALF_WIDTH = re.compile(r"[一-鿿][,;:?!.](?![\w=]*})|[,;](?=[一-鿿])")


def holes(template: str) -> set[tuple[str, str | None, str | None]]:
    return {(name, form, how) for _, name, how, form in Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("name", TABLES)
def test_every_sentence_exists_in_both_languages(name: str) -> None:
    english, chinese = TABLES[name]

    assert set(chinese) - set(english) == set(), "superfluous"
    assert set(english) - set(chinese) == set(), "missing"


@pytest.mark.parametrize("name", TABLES)
def test_both_languages_speak_of_the_same_facts(name: str) -> None:
    english, chinese = TABLES[name]

    assert [key for key in english if holes(english[key]) != holes(chinese[key])] == []


@pytest.mark.parametrize("name", TABLES)
def test_code_in_a_sentence_is_the_same_in_both_languages(name: str) -> None:
    english, chinese = TABLES[name]
    quoted = re.compile(r"`[^`]+`|(?<![\w-])--[a-z-]+|HORAE_[A-Z_]+[A-Z]|pip install '[^']+'")

    assert [key for key in english if set(quoted.findall(english[key])) != set(quoted.findall(chinese[key]))] == []


@pytest.mark.parametrize("name", TABLES)
def test_chinese_is_written_with_its_own_punctuation(name: str) -> None:
    english, chinese = TABLES[name]
    worded = [key for key, text in english.items() if re.search("[a-z]", re.sub(r"{.*?}", "", text))]

    assert [text for text in chinese.values() if HALF_WIDTH.search(text)] == []
    assert [key for key in worded if not re.search("[一-鿿]", chinese[key])] == []


def test_no_why_line_stands_in_two_tables() -> None:
    named = [reason for table in sentences.REASONS.values() for reason in table]

    assert sorted(named) == sorted(set(named))


def test_every_setting_is_explained_in_chinese() -> None:
    named = {each.metadata["env"]: each.metadata["help"] for each in fields(Settings)}

    assert set(tables.HELPS) == set(named)
    assert [text for text in tables.HELPS.values() if HALF_WIDTH.search(text)] == []
    assert setting_help("HORAE_PORT", named["HORAE_PORT"], "zh") == "服务监听的端口"
    assert setting_help("HORAE_PORT", named["HORAE_PORT"]) == "the port the service listens on"


def test_a_verb_of_the_audit_without_words_is_found() -> None:
    used = audit_verbs(SOURCE) | dict.fromkeys((*EVENTS, *OBJECT_VERBS), "core/governance/entries.py")

    assert len(used) > 25
    assert {verb: place for verb, place in used.items() if verb not in audit.VERBS} == {}
    assert set(audit.VERBS) - set(used) == set(), "superfluous"


def test_every_reason_of_a_why_line_has_words_and_every_word_a_reason() -> None:
    said = "\n".join(module.text for module in modules(SOURCE) if module.floor in ("core", "actions", "service"))
    made = {f"parent_{ended}_{policy}" for ended in ("dead", "cancelled", "gone") for policy in ON_PARENT_DEAD}
    made |= {f"attempt_{outcome}" for outcome in ("failed", "timed_out", "lost")}
    limits = ("queue_limit", "global_limit", "group_limit")
    made |= {f"{code}_reached{whom}" for code in limits for whom in ("", "_for_tenant")}
    quoted = re.findall(r"Reason\(\s*[\w.\"]+,\s*\"(\w+)\"", said)
    quoted += ["done", "done_without_result", "audit_unguarded", "guard_invisible"]
    examined = "\n".join(module.text for module in modules(SOURCE) if module.place.startswith(("doctor/", "cli/")))
    quoted += re.findall(r"\b(?:ok|warning|problem|level)\(\s*\"?\w+\"?,\s*\"(\w+)\"", examined)
    audited = "\n".join(module.text for module in modules(SOURCE) if module.place.startswith("core/audit/"))
    quoted += [each for each in re.findall(r"\"(\w+)\"", audited) if each in audit.WHY]
    explained = re.findall(r"explained\(\"\w+\", \"(\w+)\"", said)
    made |= set(quoted) | {f"{each}{how}" for each in explained for how in ("_because", "_unexplained")}

    assert made - set(WHY) == set()
    assert set(WHY) - made == set()


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "HORAE_LANG": "zh"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "HORAE_LANG": "en"}, "en"),
        ({"LANG": "zhuang"}, "en"),
    ],
    ids=str,
)
def test_a_shell_that_says_chinese_gets_chinese(environment: dict[str, str], language: Language) -> None:
    assert from_environment(environment) == language


def test_an_error_is_put_into_chinese_and_stays_english_as_an_exception() -> None:
    error = NotFound("job_unknown", id="job_7")

    assert error.in_words("zh") == "没有任务 job_7。它可能已被清理；`horae job list` 会列出现有的任务。"
    assert str(error).startswith("There is no job job_7.")
    assert error.in_words("en") == str(error)


def test_an_error_that_quotes_another_quotes_it_in_the_same_language() -> None:
    inner = InvalidInput("setting_not_a_bit", text="maybe")
    outer = ConfigurationError("setting_invalid", name="HORAE_OTEL", problem=str(inner))
    outer.__cause__ = inner

    assert outer.in_words("zh") == "HORAE_OTEL：'maybe' 既不是 1 也不是 0。"


def test_what_a_handler_said_is_never_translated() -> None:
    assert HandlerFailed("The printer is on fire.").in_words("zh") == "The printer is on fire."


def test_lists_and_spans_are_read_the_chinese_way() -> None:
    refused = NotAllowed("transition_refused", thing="job", state="dead", event="claim", possible=["revive", "cancel"])

    assert refused.in_words("zh") == "任务 处于 dead，不能 claim。从 dead 出发可以：revive、cancel。"
    assert sentence("wait_too_long", {"timeout": 90_000, "longest": 60}, "zh") == (
        "等待 1 天 1:00:00 超过此通道允许的时长；最多等待 0:01:00。"
    )
    assert sentence("scopes_missing", {"choices": []}, "zh") == "没有权限范围的令牌什么也做不了；请从 无 中选择。"


def test_a_why_line_has_both_languages() -> None:
    reason = Reason("held", "waits_for_jobs", {"jobs": ["job_1 (queued)", "job_2 (running)"]})

    assert reason.text == "it waits for job_1 (queued), job_2 (running) to succeed"
    assert reason.in_words("zh") == "在等待 job_1 (queued)、job_2 (running) 成功"
    assert why_line("never_heard_of", {}, "zh") is None
    assert verb_phrase("revive", "zh") == "重新排队"
    assert verb_phrase("never_heard_of", "zh") == "never_heard_of"
