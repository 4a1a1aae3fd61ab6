"""The sentences of errors about users' scheduled tasks, by reason."""

ERRORS = {
    "handler_not_for_tasks": "A task cannot run {handler!r}; choose one of {choices}.",
    "next_run_at_missing": "A once task needs next_run_at: the instant at which it shall run.",
    "next_run_at_passed": "The time of this once task, {next_run_at}, has passed. Send next_run_at together with "
    "enabled.",
    "next_run_at_too_early": "next_run_at {text!r} lies before 1970; give an instant from then on.",
    "payload_key_missing": "The payload of {handler} needs {key!r}: which agent, and what kind of task it is.",
    "payload_key_reserved": "The payload cannot have a key {key!r}: handlers use that name. Choose another.",
    "payload_key_unknown": "The payload of {handler} has no key {key!r}; it has {choices}.",
    "scheduled_task_unknown": "There is no such task; GET /scheduled-tasks lists those there are.",
    "task_cannot_run": "The task cannot run: {problem}",
    "task_field_unknown": "A task has no {field!r}; choose from {choices}.",
    "task_interval_too_long": "An interval of {seconds} seconds is too long; the most is {most:,} seconds.",
    "task_interval_too_short": "An interval of {seconds} seconds is too short; the least is {least:g} seconds.",
    "task_interval_unreadable": "The schedule_expr of an interval is a whole number of seconds such as 60, not "
    "{expression!r}.",
    "task_key_in_other_queue": "The key {key!r} made a task that fires into another queue. Choose another key.",
    "task_key_of_deleted": "The key {key!r} made {id}, which has been deleted since. Choose another key.",
    "task_not_running": "The task is not running, so there is no lock to release.",
    "task_queue_not_served": "A task that runs {handler!r} goes to the queue {queue!r}, and this token is limited to "
    "{queues}. Use a token without --queues.",
    "task_running": "The task is running, or waits to run; nothing was started. Its runs show how far it is.",
    "task_version_old": "The task is at version {version} by now; read it again and repeat.",
    "too_many_enabled_tasks": "{allowed} tasks are enabled, which is the most. Disable or delete one, or save this "
    "one disabled.",
    "zone_name_too_long": "The timezone has {length} characters; use an IANA name such as Asia/Shanghai.",
}

# Why a user's task does not run.
WHY = {
    "comes_twice": "next_run_at {text} comes twice in {zone}; the first is taken, {first}. The second is {second}.",
    "expression_empty": "schedule_expr is empty; the task runs every minute ({expression}).",
    "interval_lengthened": "The interval of {asked} seconds is shorter than the operator allows now; the task runs "
    "every {runs} seconds.",
    "interval_replaced": "An interval of {asked} seconds cannot be kept; it is {runs} seconds.",
    "routing_dropped": "{key} was dropped: a payload cannot bypass the orchestrator; name a default_agent instead.",
    "runs_at_once": "next_run_at {next_run_at} has passed; the task runs at once.",
    "runs_will_fail": "Its runs will fail: {problem}",
    "nothing_in_its_way": "nothing stands in its way; it runs at next_run_at",
    "task_given_up": "Given up after attempt {attempt}: {error}. Send enabled and a new next_run_at to try again.",
    "task_inactive": "{because}",
    "task_paused_unexplained": "Paused by {by} at {paused_at}.",
    "task_paused_because": "Paused by {by} at {paused_at}: {because}",
    "task_ran": "It ran once, as asked, for {expression}.",
}
