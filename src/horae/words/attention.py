"""The sentences of errors about agents, lanes and their tasks, by reason."""

ERRORS = {
    "act_arguments_unreadable": "The arguments of an action are an object of values by name, not {given}. Write "
    "Act(name, arguments={{…}}).",
    "act_keyword_unknown": "Act takes no keyword {keyword!r}. Arguments of the action have a place of their own: "
    "Act({action!r}, arguments={{{keyword!r}: …}}, cites=[…]).",
    "action_answer_unreadable": "An action answers Facts(...), Pending(...) or nothing, not {given}.",
    "action_declared_twice": "There is already an action {name!r}; choose another name.",
    "action_timeout_too_short": "An action needs a timeout above zero; leave it out for 25 seconds.",
    "agent_function_is_generator": "A generator function cannot be the {function}: calling it would run none of its "
    "code. Remove the yield.",
    "agent_cost_without_budget": "{name!r} has a cost, but its agent has no budget to take it from. Write "
    "Attention(…, budget='llm'), or leave the cost out.",
    "aging_cap_too_high": "aging_cap {aging_cap} must stay below margin {margin}, or age could interrupt.",
    "children_unreadable": "Start takes 1 to {most} children: Start([Child('kind', {{…}})]).",
    "cognition_declared_twice": "Tasks of kind {kind!r} have a cognition already; declare one for each kind.",
    "confirm_timeout_missing": "confirm_timeout is a timedelta above zero: a person may never answer.",
    "confirmation_decided": "Confirmation {id} has already been {verdict} by {decided_by}; that answer counts.",
    "confirmation_not_needed": "Confirmation {id} is no longer needed: its task does not wait for it any more.",
    "confirmation_number_unknown": "There is no confirmation {id}, or it is not one of yours.",
    "confirmation_timed_out": "Confirmation {id} was not answered by {deadline} and has timed out.",
    "confirmation_unknown": "There is no confirmation {id} in lane {lane!r}.",
    "effect_unknown": "Unknown effect {effect!r}; choose one of {choices}.",
    "failure_without_reason": "A failure needs a reason that a person can read.",
    "joined_tasks_unreadable": "Join takes the ids of 1 to {most} tasks, such as ['t12', 't13'].",
    "journal_line_unknown": "The journal of {lane!r} has lines 1 to {last}; there is no line {line}.",
    "lane_lost": "{driver} no longer drives this lane (epoch {epoch}): its lease ran out, or it was stopped. Drop "
    "this step; the driver that has the lane now decides.",
    "lane_lost_after_step": "The step {step!r} has run, and its effect stands. Its result is not kept: {driver} no "
    "longer drives this lane (epoch {epoch}), and the driver that has it now decides whether it runs again.",
    "lane_name_taken": "{name!r} cannot name a lane: /{taken} is a path of the service below every lane. Choose "
    "another name.",
    "lane_spans_too_short": "lease and turn_timeout must be above zero.",
    "lane_unknown": "There is no lane {lane!r}; `horae attention lanes` shows those there are.",
    "must_confirm_no_list": "must_confirm is a list of actions.",
    "must_confirm_unreadable": "must_confirm is a set of names of actions, not {given}.",
    "no_safe_point": "There is no safe point between an intent and its facts; record the facts first.",
    "not_a_lane_job": "A job {handler!r} with this payload is not one that a lane plans for itself.",
    "note_unreadable": "A note is a text of up to {most} characters: a cue for coming back, not a report.",
    "policy_counts_too_low": "turn_errors, max_turns, max_steps, max_tasks and crashes are 1 or more, clean_up_steps 0 "
    "or more.",
    "policy_times_too_short": "Waits and events need a positive time: longest_wait and keep_events.",
    "row_gone": "{kind} {number} no longer exists; read the lane again.",
    "rule_action_unknown": "The rule for {event!r} cannot do {action!r}; choose from {choices}.",
    "rule_declared_twice": "There is already a rule for {event!r}; keep one.",
    "rule_key_missing": "The rule for {event!r} merges by key, so it must name one.",
    "rule_kind_missing": "The rule for {event!r} makes a task, so it must name its kind.",
    "rule_payload_unreadable": "The payload of the rule for {event!r} is an object, to which the event's is added.",
    "run_until_unknown": "run(until={until}) is not known; use until='idle', or await serve().",
    "stack_without_room": "A stack needs room for at least one task, and aging a positive period.",
    "start_at_and_delay": "Give start_at or delay, not both.",
    "steps_need_driver": "This turn or action was not made by a driver, so there is no place for the results of its "
    "steps. Let Attention.run or serve call it.",
    "switch_unknown": "{switch!r} is not a switch of control; choose from {choices}.",
    "task_id_malformed": "{id!r} is not the id of a task; ids look like t12.",
    "task_id_unreadable": "There is no task {id!r}; ids look like t12.",
    "task_joins_itself": "Task {id} cannot wait for its own end; name other tasks of its lane.",
    "task_key_taken": "The key {key!r} already belongs to task {id}, which is about something else. Choose another "
    "key.",
    "task_not_ended": "Task {id} has no result yet: it is {state}. Ask again later, or wait: "
    "result({id!r}, timeout=…).",
    "task_priority_outside": "priority {value} is not a whole number from {least} to {most}.",
    "task_unknown": "There is no task {id} in lane {lane!r}.",
    "task_without_result": "Task {id} has no result: it is {state} ({reason}).",
    "wait_keys_outside": "A wait is for 1 to {most} keys, not {count}.",
    "wait_keys_unreadable": "A wait names its keys as text or a list of texts, not {given}.",
    "wait_timeout_missing": "A wait needs a finite timeout above zero: its event may never come.",
    "wait_too_long": "A wait of {timeout:span} is longer than this lane allows; wait at most {longest:span}.",
}

# Why a task of a lane is left alone.
WHY = {
    "left_alone": "left alone: the lane's last driver has no cognition for tasks of kind {kind!r}; start one that "
    "declares it",
}
