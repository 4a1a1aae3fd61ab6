"""The terminal speaks Chinese to those who ask for it; JSON stays as it is."""

import pytest

from tests.cli.conftest import Command
from tests.cli.test_imports import RUN, loaded


def test_an_error_is_in_the_language_that_was_asked_for(horae: Command) -> None:
    horae("db", "migrate")

    assert horae("job", "show", "job_7", "--lang", "zh").err == (
        "error: 没有任务 job_7。它可能已被清理；`horae job list` 会列出现有的任务。\n"
    )
    assert horae("job", "show", "job_7").err.startswith("error: There is no job job_7.")
    assert horae("job", "show", "job_7", "--lang=zh").err.startswith("error: 没有任务")


def test_json_stays_english_and_carries_reason_and_facts(horae: Command) -> None:
    horae("db", "migrate")
    refused = horae("job", "show", "job_7", "--lang", "zh", "--json")

    assert refused.json["error"]["message"].startswith("There is no job job_7.")
    assert (refused.json["error"]["reason"], refused.json["error"]["facts"]) == ("job_unknown", {"id": "job_7"})
    assert "没有任务" in refused.err


@pytest.mark.parametrize(("name", "value"), [("HORAE_LANG", "zh"), ("LC_ALL", "zh_CN.UTF-8"), ("LANG", "zh_CN.UTF-8")])
def test_the_shell_decides_where_no_option_does(
    name: str, value: str, horae: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setenv(name, value)
    horae("db", "migrate")

    assert horae("job", "show", "job_7").err.startswith("error: 没有任务 job_7。")
    assert horae("job", "show", "job_7", "--lang", "en").err.startswith("error: There is no job")


def test_a_language_without_words_is_refused(horae: Command) -> None:
    horae("job", "list", "--lang", "fr", "--json").assert_refused(2, "language_unknown", {"language": "fr"})


def test_why_lines_and_changes_follow_the_language(horae: Command) -> None:
    horae("db", "migrate")
    horae("job", "enqueue", "add", "--queue", "sums")
    horae("schedule", "add", "nightly", "--handler", "add", "--cron", "0 3 * * *")
    horae("schedule", "pause", "nightly")
    job = horae("job", "show", "job_1", "--lang", "zh")
    document = horae("job", "show", "job_1", "--lang", "zh", "--json").json["why"]
    page = horae("schedule", "show", "nightly", "--lang", "zh").out

    assert "没有 worker 服务队列 sums" in job.out
    assert document == [
        {
            "code": "no_worker", "text": "no worker serves the queue sums", "reason": "no_worker_serves",
            "facts": {"queue": "sums"},
        }
    ]  # fmt: skip
    assert "它已由 cli/" in page
    assert "暂停" in page
    assert "创建" in page
    assert "paused by cli/" in horae("schedule", "show", "nightly").out


def test_chinese_is_imported_only_where_it_is_asked_for(tmp_path: object) -> None:
    url = f"sqlite:///{tmp_path}/horae.db"
    loaded(RUN, "db", "migrate", "--db", url)

    assert not {name for name in loaded(RUN, "job", "list", "--db", url) if name.startswith("horae.words.chinese")}
    assert "horae.words.sentences" not in loaded(RUN, "job", "list", "--db", url)
