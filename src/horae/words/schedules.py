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
    "cron_unreadable": "Cron {expression!r}: at position {position}, field {field}: found {found}; allowed: "
    "{allowed}. {advice}",
    "end_before_start": "The end {end} is earlier than the start {start}; exchange the two.",
    "ends_before_start": "ends_at {ends_at} is not later than starts_at {starts_at}; give a later end.",
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
    "schedule_path_ambiguous": "This address means {meaning} as well as the schedule {key!r}, so nothing was done. Use "
    "the command line (horae schedule), or give that schedule another key.",
    "schedule_payload_no_object": "The payload of a schedule is an object: the arguments of its handler by name.",
    "schedule_unknown": "There is no schedule {key!r}; `horae schedule list` shows what there is.",
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
    "begins_later": "it begins at {starts_at}",
    "counts_from_end": "it counts from the end of its job, which has not ended yet",
    "disabled_by": "it is disabled (by {source})",
    "ends_before_next": "it ends at {ends_at}, and no fire is left before that",
    "fired_often_enough": "it has fired {count} of at most {most} times",
    "follows_others": "it has no times of its own: it runs after {leaders} succeeded",
    "inactive_because": "it is inactive: {because}",
    "instant_passed": "its one instant, {expression}, is behind it",
    "no_fire_left": "no fire is left",
    "overdue_since": "it has been due since {due_at}, and no worker has come by to fire it",
    "runs_on_each_node": "each node runs it by a timer of its own; its fires are not stored",
    "schedule_paused_unexplained": "it was paused by {by} at {paused_at}",
    "schedule_paused_because": "it was paused by {by} at {paused_at}: {because}",
    "switched_off": "it is switched off until a worker of its application starts again",
}
