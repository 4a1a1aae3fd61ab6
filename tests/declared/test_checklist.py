"""The acceptance checklist of document 003, section 16 (S3-45): each line, and the test that answers for it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKLIST = {
    "the annotation has id, cron, fixedRate, initialDelay, mode, lockTtlMs, enabled": [
        "test_the_defaults_are_those_of_document_003",
        "test_an_interval_is_seconds_or_a_timedelta",
    ],
    "a class that is no executor is refused": ["test_a_class_without_run_is_refused"],
    "the id is neither blank nor used twice": [
        "test_a_blank_id_is_refused",
        "test_a_second_job_with_the_same_id_is_refused",
        "test_merging_two_jobs_with_one_id_is_refused",
    ],
    "cron and fixedRate exclude each other": ["test_cron_and_interval_exclude_each_other"],
    "lockTtlMs is above zero": ["test_a_lock_must_last_some_time"],
    "the registry holds what was declared": ["test_an_application_is_merged_from_several_collections"],
    "constructor dependencies are resolved": [
        "test_a_class_gets_what_its_constructor_asks_for",
        "test_a_dependency_that_nothing_provides_is_refused_at_the_start",
    ],
    "jobs.conf is loaded": ["test_the_file_of_the_document_is_read_word_for_word"],
    "the global switch works": ["test_the_global_switch_turns_everything_off"],
    "items override by id": ["test_the_file_of_the_document_is_read_word_for_word"],
    "the file wins over the annotation": ["test_the_file_wins_over_code_and_each_value_says_so"],
    "five cron fields, every form, the next fire, bad text": [
        "test_the_next_fire_is",
        "test_strict_text_is_refused_with_field_and_position",
        "test_a_rule_that_cannot_be_kept_is_refused_in_its_own_words",
    ],
    "cron fires in its minute": ["test_a_cron_job_fires_at_its_minute_and_never_twice"],
    "fixedRate keeps its interval": ["test_a_fixed_delay_counts_from_the_end_of_each_run"],
    "initialDelay works": ["test_an_interval_begins_after_its_initial_delay"],
    "runs of one job never overlap": ["test_a_local_job_never_overlaps_itself"],
    "a failure does not stop later fires": ["test_a_failing_run_stops_neither_its_job_nor_others"],
    # Decision 0080: put back first, and SKIPPED once the next occurrence has come.
    "SINGLE_NODE tries the lock job:{id}; without it SKIPPED and no error": [
        "test_a_job_whose_lock_somebody_holds_waits_for_it_and_loses_no_attempt",
        "test_a_job_whose_lock_somebody_holds_is_skipped_when_the_next_one_comes_and_says_so",
    ],
    "the lock is released in the end": ["test_the_lock_is_free_again_after_a_run_that_failed"],
    "ALL_NODES touches no lock": ["test_all_nodes_touch_no_lock"],
    "SINGLE_NODE without a lock manager fails fast": [
        "test_single_node_without_a_lock_manager_fails_at_the_start_and_says_how_to_fix_it"
    ],
    "ALL_NODES with an explicit lockTtlMs is warned of": ["test_a_lock_on_all_nodes_is_doubtful_but_allowed"],
    "onStart comes before the run": ["test_listeners_hear_of_the_start_before_the_work_begins"],
    "onSuccess brings the duration": ["test_listeners_hear_of_start_and_success_with_the_time_of_the_fire"],
    "onFailure brings duration and error": ["test_listeners_hear_of_a_failure_with_the_error_itself"],
    "onSkipped comes when the lock is held": [
        "test_a_job_whose_lock_somebody_holds_is_skipped_when_the_next_one_comes_and_says_so"
    ],
    "without a listener everything runs": ["test_a_cron_job_fires_at_its_minute_and_never_twice"],
    "init, start, stop": ["test_shutdown_waits_for_what_runs_then_cancels_it"],
    "shutdown cancels after its timeout": [
        "test_shutdown_waits_for_what_runs_then_cancels_it",
        "test_shutdown_cancels_a_local_run_after_the_timeout_too",
    ],
    "trigger runs at once, whatever the switches say": ["test_a_disabled_job_does_not_fire_but_can_be_triggered"],
    "trigger obeys the lock": ["test_a_manual_trigger_obeys_the_lock"],
    "trigger of an unknown id is an error": ["test_a_trigger_of_an_unknown_job_is_an_error"],
    "the snapshot tells all jobs, last result and counts": [
        "test_a_failing_run_stops_neither_its_job_nor_others",
        "test_a_snapshot_tells_all_jobs_scheduled_stored_and_only_asked_for",
    ],
}


def known_tests() -> set[str]:
    files = [*(ROOT / "declared").glob("test_*.py"), *(ROOT / "core").glob("test_cron*.py")]
    return {
        node.name
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("line", CHECKLIST)
def test_a_line_of_the_checklist_has_a_test(line: str) -> None:
    assert set(CHECKLIST[line]) <= known_tests()
