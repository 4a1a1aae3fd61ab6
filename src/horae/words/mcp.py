"""The sentences of errors that only the MCP servers raise, by reason."""

ERRORS = {
    "admin_token_of_agent": "An agent must not hold a token with the scope admin, nor one of a person (review): "
    "it could approve its own requests. Make one for it with: horae token create --owner … --scopes tasks",
    "agent_schedule_end_outside": "ends_at is outside the next {most_days} days; choose an end within them.",
    "agent_schedule_too_often": "The fires are too often: less than {least:g} seconds apart, and each one costs a "
    "model's turn. Choose a longer interval.",
    "agent_schedule_unknown": "There is no schedule {id!r}; schedule_list shows those there are.",
    "confirmation_not_listed": "There is no confirmation {id}; confirm_list shows those that wait for an answer.",
    "confirmation_not_opened": "Task {id} is {state}, so no confirmation was opened. Call safe_point to learn what to "
    "work on.",
    "context_given_and_cleared": "A context cannot be given and cleared in one call; leave out one of context and "
    "clear_context.",
    "cron_zone_missing": "A cron schedule needs a timezone; give one such as Europe/Berlin.",
    "grant_expired": "The approval for task {id} counted until {deadline}; ask again with confirm_request.",
    "grant_unknown": "Task {id} has no such grant. It stands in the data of the fact `confirmed`, and belongs to the "
    "task that asked.",
    "grant_used": "This grant of task {id} was redeemed before, and permits nothing twice. Call safe_point: a fact "
    "tells how its action ended.",
    "grant_void": "What this grant of task {id} rests on does not hold any more. Call safe_point, and ask again with "
    "confirm_request.",
    "interval_expr_unreadable": "The expr of an interval is a number of seconds such as 3600, not {expr!r}.",
    "lane_driven_elsewhere": "Lane {lane!r} is driven by another process, which decides about its tasks. Add tasks "
    "and post events to it, or stop that process and call again.",
    "mcp_token_missing": "Missing or invalid token. Send the header Authorization: Bearer horae_…; `horae token "
    "create` makes one.",
    "once_expr_passed": "{at} has passed already (it is {now}); choose a later time, or use task_add.",
    "once_expr_unreadable": "The expr of a single run is an ISO time such as 2026-11-16T09:00, not {expr!r}.",
    "step_not_open": "Task {id} is {state} and has no redeemed action to report. Call safe_point: a fact tells how its "
    "last action ended.",
    "step_open": "Task {id} has redeemed the grant for {action!r}, and how that ended is not reported yet.",
    "task_has_ended": "Task {id} is {state} and not the focus; {focus} has it. Call safe_point without a task to learn "
    "what to work on.",
    "task_has_result": "Task {id} is completed with another result, which counts. Leave result out, or add a task.",
    "task_not_focused": "Task {id} is {state} and not the focus; {focus} has it. Call safe_point without a task to "
    "learn what to work on.",
    "task_of_context_missing": "A context or a note belongs to a task; name the one you work on.",
    "too_many_calls_wait": "{most} calls wait for work already, which is the most.",
    "too_many_live_tasks": "{allowed} tasks have not ended, which is the most. End or cancel some first.",
    "tool_selection_unknown": "--tools {tools} is not known; choose all or minimal.",
    "turn_not_reached": "Task {id} is in turn {current}; there is no turn {turn} yet.",
    "wait_for_own_task": "You work on the tasks of lane {lane!r} yourself, so this call would wait for you. Leave wait "
    "out; safe_point gives you the task.",
}
