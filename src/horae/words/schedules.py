"""The sentences of errors about schedules and cron, by reason."""

ERRORS = {
    "after_and_times": "A schedule has times of its own ({kind}) or follows others (after=[…]), not both.",
    "after_missing": "A schedule that follows others must name at least one of them in after=[…].",
    "after_not_keys": "after={value} is not a list of keys of schedules; write for example after=['nightly'].",
    "backfill_too_many": "From {begin} on, more than {most:,} fires are missing; choose a shorter range.",
    "backfill_too_wide": "From {begin} to {until} there are {count:,} fires, and a backfill looks through {most:,} at"
    " most; choose a shorter range.",
    "cron_has_seconds": "The cron {expression!r} has six fields; a task has five and runs at most once a minute. For "
    "a quicker rhythm use schedule_type interval.",
    "calendar_day_unreadable": "{text!r} is no day of a calendar; write 2030-12-25, 2030-12-24..2030-12-31, 12-25 for "
    "every year, or sat.",
    "calendar_has_every_day": "The calendar names every day of the week; leave at least one out.",
    "calendar_in_use": "The calendar {name} is used by {schedules}; take it from them first.",
    "calendar_just_made": "The calendar {name} was just made by another caller; set it again to replace its days.",
    "calendar_missing": "The schedule names the calendar {name!r}, which does not exist; make it with `horae calendar "
    "set {name} DAY …`, or name another.",
    "calendar_unknown": "There is no calendar {name!r}; make it with `horae calendar set {name} DAY …`.",
    "calendar_version_old": "The calendar {name} is at version {version} by now, not {expected}; read it again.",
    "move_too_often": "Only cron with at most {most} times a day can be moved to another day; exclude the days "
    "instead.",
    "pause_end_passed": "The pause cannot end at {until}, which has passed; give a later instant, or none.",
    "quiet_all_day": "Quiet hours {text!r} leave no time of the day; shorten them.",
    "quiet_unreadable": "{text!r} are no quiet hours; write 22:00-07:00, or several with commas.",
    "window_without_rhythm": "Quiet hours and a calendar need cron or an interval, and this is of kind {kind}; leave "
    "them out.",
    "cron_unreadable": "Cron {expression!r}: at position {position} ({character}), field {field}: found {found}; "
    "allowed: {allowed}. {advice}",
    "end_before_start": "The end {end} is earlier than the start {start}; exchange the two.",
    "ends_before_start": "ends_at {ends_at} is not later than starts_at {starts_at}; give a later end.",
    "expect_bare_span": "expect={text!r} does not say what it counts from; write 'within {text}' (of being due) or "
    "'every {text}'.",
    "expect_bare_time": "expect={text!r} is a time of day; write 'by {text}'.",
    "expect_before_due": "A job that is due at {run_at} cannot have succeeded {expect}; expect it later.",
    "expect_every_of_job": "A single job runs once, so {expect!r} cannot be expected of it; write 'within 10m' (of "
    "being due) or 'by 06:00', or expect it of a schedule.",
    "expect_instant_on_schedule": "A schedule runs again and again, and {expect!r} is one instant; write 'by 06:00', "
    "'within 10m' or 'every 1d'.",
    "expect_not_one": "Expect takes one of within, by and every, and {given} were given.",
    "expect_on_all_nodes": "What runs on every node by itself leaves no runs in the store that could be expected; "
    "leave expect out, or use mode SINGLE_NODE.",
    "expect_span_outside": "An expectation {name} {value:span} is outside one second to {most_days:,} days.",
    "expect_time_unreadable": "{text!r} is no time of day; write for example 'by 06:00', with hours and minutes.",
    "expect_unreadable": "{text!r} is no expectation; write 'within 10m' (of being due), 'by 06:00', 'by 06:00 "
    "Europe/Berlin' or 'every 1d'.",
    "expect_without_times": "A schedule that follows others has no times of its own that {expect!r} could count from; "
    "write 'by 06:00' or 'every 1d', or expect it of the schedule that it follows.",
    "expect_zone_unused": "Only a time of day ('by 06:00') has a zone, not {name}; leave it out.",
    "expression_too_long": "The expression has {length} characters; at most {most} fit.",
    "field_not_changeable": "{field!r} cannot be changed on a schedule; choose from {choices}.",
    "followed_unknown": "Schedule {key} cannot follow {missing!r}: there is no such schedule.",
    "hours_outside": "hours={hours:g} is outside more than 0 to {most:g}.",
    "interval_invalid": "{name}={value} is not a number of seconds or a timedelta.",
    "interval_too_short": "{name}={value} cannot be kept: give at least {least:g} seconds, in whole milliseconds.",
    "interval_unreadable": "{name}={value} is not a number of seconds or a timedelta.",
    "no_rule_given": "A schedule needs one of cron, every, once and after.",
    "no_times_to_backfill": "Schedule {key} has no times of its own to make up for: it counts from the end of other "
    "runs.",
    "reading_skipped": "{name} {reading} does not exist in {zone}: its clocks jump over it. The first moment after is"
    " {next_local} ({next}).",
    "reading_zone_missing": "{name} {text!r} has no time zone; write {without_zone}Z for UTC, an offset such as "
    "{without_zone}+08:00, or name the zone that it is meant in.",
    "schedule_exists": "There is already a schedule {key!r}; change it, or choose another key.",
    "schedule_field_unknown": "A schedule has no {field!r}; choose from {choices}.",
    "schedule_followed": "Schedule {key} is followed by {followers}; change or delete that first.",
    "schedule_key_used": "That key made {key}, which has been deleted since. Choose another key.",
    "schedule_just_changed": "Schedule {key} was changed meanwhile; read it again and repeat.",
    "schedule_just_made": "Another process has just made a schedule {key!r}; look again.",
    "schedule_key_means_group": "The key {key!r} would be taken for a group, because it begins with groups/; choose "
    "another, say {another!r}.",
    "schedule_key_means_verb": "The key {key!r} would be taken for a verb, because it ends in /{verb}; choose another, "
    "say {another!r}.",
    "schedule_key_not_sent": "The key {key!r} has a part that clients and proxies take out of a path; choose another, "
    "say {another!r}.",
    "schedule_path_ambiguous": "This address means {meaning} as well as the schedule {key!r}, so nothing was done. Use "
    "the command line (horae schedule), or give that schedule another key.",
    "schedule_payload_no_object": "The payload of a schedule is an object: the arguments of its handler by name.",
    "schedule_unknown": "There is no schedule {key!r}; `horae schedule list` shows what there is.",
    "schedules_partly_in_line": "Schedules are in line with code and file in all databases but {databases}, which do "
    "not answer. Workers bring them in line there when they are back.",
    "schedule_version_old": "Schedule {key} is at version {version}, not {expected}; read it again and repeat.",
    "schedules_in_circle": "These schedules would wait for each other in a circle: {circle:path}. Take one out of its"
    " after=[…].",
    "several_rules_given": "A schedule has one of cron, every, once and after, not {rules}.",
    "span_negative": "{name} cannot be negative; give zero or more.",
    "spread_outside": "spread={spread:span} is outside 0 to {most_days:,} days.",
    "title_unprintable": "A title is one line of at most {most} printable characters; shorten it, or leave it out.",
    "too_many_schedules": "There are {allowed} schedules, which is the most. Delete one first.",
}

# Why a schedule does not fire: a line without a capital and a full stop, which stands behind a label.
WHY = {
    "starts_after_quiet": "its next job starts at {until}, when the quiet hours of its owner {owner} end",
    "kept_by_calendar": "its next time, {planned}, is kept back by the calendar {calendar}; it fires at {next}",
    "kept_by_quiet": "its next time, {planned}, falls into its quiet hours {quiet}; it fires at {next}",
    "pause_ends": "the pause ends by itself at {until}",
    "begins_later": "it begins at {starts_at}",
    "counts_from_end": "it counts from the end of its job, which has not ended yet",
    "disabled_by": "it is disabled (by {source})",
    "ends_before_next": "it ends at {ends_at}, and no fire is left before that",
    "fired_often_enough": "it has fired {count} of at most {most} times",
    "follows_others": "it has no times of its own: it runs after {leaders} succeeded",
    "inactive_because": "it is inactive: {because}",
    "instant_passed": "its one instant, {expression}, is behind it",
    "no_fire_left": "no fire is left",
    "missed_deadline": "it should have succeeded by {due_at} (expected {expect}) and has not since; the next success "
    "closes this",
    "overdue_since": "it has been due since {due_at}, and no worker has come by to fire it",
    "runs_on_each_node": "each node runs it by a timer of its own; its fires are not stored",
    "schedule_paused_unexplained": "it was paused by {by} at {paused_at}",
    "schedule_paused_because": "it was paused by {by} at {paused_at}: {because}",
    "switched_off": "it is switched off until a worker of its application starts again",
}
