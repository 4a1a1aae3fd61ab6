"""The sentences of errors about statistics and error groups, by reason."""

ERRORS = {
    "error_group_mixed": "This group holds errors of too many kinds to tell apart, so its dead jobs cannot be found by "
    "it. Revive them by handler or queue: `horae job revive`.",
    "error_group_unknown": "There is no error group {fingerprint!r} of {owner!r}. A group that was not seen for {days} "
    "days is removed; `horae errors list` shows what there is.",
    "mute_passed": "until {until} has passed; give a time in the future, or none to mute until it is unmuted.",
    "mute_reason_missing": "Muting {fingerprint} needs a reason, for those who wonder later why they heard nothing.",
    "statistics_of_others": "You see the statistics of {owner!r} only: ask by owner, without a name.",
    "too_many_points": "{points:,} points by {grain} are too many; at most {most:,} are returned. Choose a coarser "
    "grain or a shorter window.",
    "window_empty": "The window from {since} to {until} is empty; since must lie before until.",
}
# How all is, and what needs a person.
WHY = {
    "all_well": "All well; nothing needs you.",
    "confirmations_open": "Questions of agents that wait for an answer: {shown}.",
    "errors_new": "New kinds of errors in the last day: {count} ({names}).",
    "expected_jobs_missing": "Jobs that should have succeeded by now: {names}.",
    "jobs_dead": "Jobs that failed for good: {shown}.",
    "jobs_late": "Jobs that have been due for over a minute: {shown}.",
    "jobs_stuck": "Jobs held by workers that have gone silent: {shown}.",
    "nothing_ran_yet": "Ready; nothing has run yet.",
    "one_thing_needs_you": "One thing needs you.",
    "queues_paused": "Paused queues: {names}.",
    "queues_unserved": "Queues with due jobs and without a worker: {names}.",
    "reviews_open": "Reviews that wait for an answer: {shown}.",
    "runs_missing": "Schedules that should have succeeded by now: {names}.",
    "schedules_inactive": "Schedules switched off by what they need: {names}.",
    "schedules_overdue": "Schedules that are overdue and have not fired: {names}.",
    "things_need_you": "{count} things need you.",
}
