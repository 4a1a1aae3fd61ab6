"""The sentences of errors about jobs, queues, limits and retries, by reason."""

ERRORS = {
    "act_not_undoable": "{id} is a {verb}; only a reschedule can be undone. A job that was cancelled can be run "
    "again: POST /jobs/{{id}}/rerun.",
    "act_states_impossible": "{verb} changes jobs that are {states}, and the filter wants {named}. Leave the state "
    "out of the filter.",
    "act_still_running": "{id} is still running; pause it, cancel it or wait for its end, then undo it.",
    "act_time_missing": "A {verb} needs the time to move jobs to; give run_at or delay.",
    "act_time_unused": "A {verb} moves no job to another time; leave run_at and delay out.",
    "act_unknown": "There is no act {id}. It may have been cleaned up; `horae act list` shows those there are.",
    "act_not_ended_in_time": "{id} is still {state} after {timeout:span}. Wait again, or look at it: "
    "`horae act show {id}`.",
    "already_running": "{key!r} is already running as job {job_id} and has reported progress lately. Wait for it, or "
    "cancel it.",
    "attempts_not_whole": "attempts={value} is not a whole number; write for example attempts=3.",
    "attempts_too_few": "A job needs at least one attempt, not {attempts}; use Retry.none() for one.",
    "attempts_too_many": "attempts={attempts} are too many; at most {most:,} are accepted. For work that never gives "
    "up, declare a schedule.",
    "debounce_and_collect": "Give debounce or collect, not both: one keeps the last call, the other all of them.",
    "collect_without_list": "A call that is collected needs a payload with exactly one list in it, which is joined "
    'with those of the others: {handler} with {{"items": [7]}}, or enqueue([7]) where it takes one parameter.',
    "owner_is_house": "system is the house itself, and has no quiet hours as an owner; give its queues some: "
    "horae queue quiet NAME HOURS.",
    "owner_without_hours": "{owner!r} has no quiet hours; `horae owner list --quiet-hours` shows who has.",
    "gather_missing": "--by, --max-wait and --within belong to --debounce or --collect; give one of them.",
    "gather_not_with": "A job that is debounced or collected cannot have {option}: it is one for many calls, due when "
    "they have come. Leave one of the two out.",
    "gather_key_missing": "The key {key!r} of {handler} names the argument {argument}, which the call does not have.",
    "gather_span_outside": "{name} of {seconds:g} s is outside one millisecond to {most_days} days.",
    "max_wait_too_short": "max_wait of {max_wait:g} s is shorter than wait of {wait:g} s; give a longer one.",
    "batch_empty": "A batch needs at least one job.",
    "batch_too_large": "A batch of {count:,} jobs is too large; at most {most:,} are accepted. Make several.",
    "batch_job_named": "{handler} has a key, a unique name or an object, and the jobs and callbacks of a batch "
    "have none: give the batch a key.",
    "batch_owner_differs": "A batch of {owner!r} cannot have a job of {other!r}; all its jobs belong to one owner.",
    "batch_callback_waits": "{name} follows the batch and cannot wait for other jobs as well; leave after out.",
    "batch_unknown": "There is no batch {id}. It may have been cleaned up; `horae batch list` shows those there are.",
    "batch_has_ended": "{id} has ended ({state}); there is nothing to cancel.",
    "batch_not_ended_in_time": "{id} still has {open} open jobs after {timeout:span}. Wait again, or look at it: "
    "`horae batch show {id}`.",
    "too_many_parents": "A job can wait for at most {most:,} others, not {count:,}; put a job between that gathers "
    "some of them.",
    "parents_too_large": "The results of the jobs before {id} have {size:,} bytes together; at most {most:,} are "
    "read at once. Return references, or read them one by one: app.jobs.result(id).",
    "before_and_age": "Give before or olderThanDays, not both.",
    "before_in_future": "before {before} lies in the future; give a time that has passed.",
    "cleaning_not_confirmed": "Without an age, runs that ended more than {days} days ago are removed: {count:,} now. "
    "Repeat with confirm=true, or give olderThanDays=… or before=….",
    "concurrency_key_missing": "An exclusive start needs a concurrency key: it names what must not run twice.",
    "connection_needs_database": "using(connection=…) joins a transaction of a database, and this process reaches a "
    "service only. Leave connection out and give a key, or run this code where the database is.",
    "definition_field_unknown": "A definition has no {field!r}; it has {choices}.",
    "mask_without_value": "{at} is {mask}, which stands for the value that was there, and there was none. Give the "
    "value.",
    "parameter_choices_unreadable": "The choices of {parameter} must be a list of at most {most} texts or numbers.",
    "parameter_default_too_large": "The default of {parameter} must be JSON of at most {most:,} characters.",
    "parameter_without_name": "A parameter needs a name of printable characters.",
    "too_many_sensitive_names": "{count} sensitive names are too many; at most {most} are accepted.",
    "definition_without_name": "A definition needs a name: the handler that it is about.",
    "retention_for_house_only": "Only the house says how long runs are kept. Use a token of the owner system with the "
    "scope admin.",
    "definitions_for_house_only": "Only a worker of the house stores definitions. Use a token of the owner system with "
    "the scope worker. A worker with a tenant's token needs no definitions: it claims all jobs of that tenant.",
    "delay_negative": "A delay of {delay:span} lies in the past; use zero or more.",
    "failure_acknowledged": "A job that failed cannot be acknowledged; send its error to /scheduler/jobs/{id}/fail.",
    "filter_choice_unknown": "{found!r} is no {field}; choose one of {choices}.",
    "filter_empty": "A bulk act needs a filter that says which jobs, for example queue:mail or state:dead.",
    "filter_field_unknown": "A filter has no field {field!r}; choose one of {choices}.",
    "filter_number_unreadable": "{found!r} is not a whole number; write for example {field}:>3 or {field}:1..5.",
    "filter_quote_open": 'A text has one double quote only, at its beginning; write for example error:"timed out".',
    "filter_range_empty": "The range {found!r} of {field} ends before it begins; write the smaller value first.",
    "filter_sign_unexpected": "{found!r} cannot stand here; put a text with such signs in double quotes.",
    "filter_term_unreadable": "{found!r} is not a term; write field:value, for example queue:mail or -state:dead.",
    "filter_terms_too_many": "{count} terms are too many; at most {most} are accepted. Several values of one field can "
    "share a term: queue:mail,sms.",
    "filter_time_unreadable": "{found!r} is not a time for {field}; write for example 2030-01-07, "
    "2030-01-07T06:00:00Z, now, -2h or -7d.",
    "filter_too_long": "A filter has at most {most:,} signs; this one begins with {expression!r}.",
    "filter_value_missing": "{field}: needs a value, for example {field}:mail.",
    "filter_values_too_many": "{count} values of {field} are too many; at most {most} are accepted.",
    "handler_not_for_tenants": "The handler {handler!r} is not open to tenants, so nothing of {owner!r} can run it. "
    'Declare it with @app.job("{handler}", tenants=True) and start its worker again, or choose another handler.',
    "job_changed": "Job {id} changed meanwhile; look at it again and repeat.",
    "job_id_unreadable": "{id!r} is not a job id; ids look like job_12.",
    "job_never_started": '{key} was never started; say how often it runs, as in {{"interval_minutes": 30}}.',
    "job_not_ended": "Job {id} is {state}; only a job that has ended can be run again.",
    "job_not_ended_in_time": "Job {id} is still {state} after {timeout:span}. Wait again, or ask what it waits for: "
    "`horae job show {id}`.",
    "job_is_dead": "Job {id} is dead; attempts: {attempts}. Its last error: {error} Look at it with: `horae job "
    "show {id}`.",
    "job_was_cancelled": "Job {id} was cancelled, so that it has no result: {why}",
    "result_not_kept": "Job {id} succeeded, but its result was not kept: {why} Return less, or store the data "
    "elsewhere and return a reference.",
    "wait_before_commit": "Job {id} was enqueued in a transaction of yours and cannot be seen yet. Commit it, then "
    "wait.",
    "job_reserved": "{id} is Horae's own: it keeps {kept}. Leave it alone and {advice}.",
    "job_row_locked": "{id} is yours, but a transaction keeps its row locked; renew it again in a moment.",
    "job_unknown": "There is no job {id}. It may have been cleaned up; `horae job list` shows what there is.",
    "key_taken": "The key {key!r} already belongs to {job_id}, which came with another request. Send exactly the same"
    " request to get that one back, or choose another key.",
    "lease_lost": "Job {job_id} is no longer held with token {token}: its lease ran out, was taken back, or it has "
    "ended. Drop this result; the worker that holds the job now decides.",
    "lease_lost_after_step": "The step {step!r} has run, and its effect stands. Its result is not kept: {job_id} is "
    "no longer held with token {token}, and the attempt that holds it now runs the step again.",
    "lease_outside": "A lease of {lease:span} is outside one second to {most_days} days; a long job renews its own.",
    "limit_for_two_things": "A limit is for a group or for a queue, not for both; set two.",
    "limit_outside": "A limit of {value} cannot be kept; use a whole number from 1 to {most:,}.",
    "limit_scope_unknown": "{text!r} names no limit; write global, group:NAME or queue:NAME.",
    "no_jobs_given": "There is nothing to enqueue; give at least one job.",
    "object_or_handler_missing": "Give object_type, object_id and action, or a handler.",
    "object_parts_missing": "object_type, object_id and action go together. Give all three, or a handler and none "
    "of them.",
    "progress_empty": "Give a value, a checkpoint, or both.",
    "owner_needs_database": "owner={owner!r} cannot be chosen behind a service: there the token decides whose job it "
    "is. Leave owner out, or run this code where the database is.",
    "page_too_deep": "Pages by number end at row {most:,}; go on with the cursor of the last page.",
    "params_no_object": "params is an object: the arguments of the job by name.",
    "parent_unknown": "A job cannot wait for {id}: there is no such job, or it is no longer on record.",
    "queue_set_nothing": "Nothing to set for queue {queue}; say --fair owner, --fair none or --order.",
    "queue_limit_too_low": "A limit of {max_running} would stop the queue; pause it instead, or use 1 or more.",
    "queue_reserved": "The queue {queue!r} is Horae's own: the jobs in it keep the timeouts of waits and "
    "confirmations and the starts and deadlines of tasks. Every worker serves it, and no one else may use it, "
    "pause it or limit it; choose another queue.",
    "too_many_views": "You have {most} views already; delete one you no longer need.",
    "view_filter_not_one_line": "The filter of a view must be one line of printable characters.",
    "view_filter_too_long": "The filter of a view has at most {most:,} characters.",
    "view_just_made": "Another view of yours was just saved as {name!r}; save it again to replace that.",
    "view_of_another": "{id} belongs to {author}; save one of your own instead.",
    "view_unknown": "There is no view {id}; `horae view list` shows those there are.",
    "worker_unknown": "There is no worker {id!r}; it may have ended. `horae workers list` shows those there are.",
    "queue_unknown": "There is no queue {queue!r} with settings, jobs or a worker; `horae queue list` shows those "
    "there are.",
    "rate_name_unreadable": "A rate limit needs a name of at most 255 characters, so that workers can share it.",
    "rate_not_whole": "A rate limit counts whole calls, not {value}; write for example 10.",
    "rate_too_low": "A rate limit of {max_calls} calls would never let anything through; allow 1 or more.",
    "rate_window_too_short": "A rate limit needs a window of at least a millisecond, not {window}.",
    "retry_delay_negative": "A retry delay cannot be negative; give zero for an immediate retry.",
    "retry_delay_too_long": "The retry delay is too long; at most {most_days:,} days are accepted.",
    "retry_factor_too_low": "The retry factor {factor} would shrink the wait; use a number from 1 on.",
    "retry_kind_unknown": "Unknown retry kind {kind!r}; choose one of {choices}.",
    "retry_type_twice": "on and never both name {name}; keep it in one of them.",
    "retry_type_unreadable": "{option}={value} is no exception; give a class, or its name such as "
    '"ConnectionError" or "requests.ConnectionError".',
    "reschedule_empty": "Give a new run_at, a new priority, or both.",
    "retry_none_with_attempts": "The retry kind none means one attempt. Leave max_attempts out, or choose another "
    "kind.",
    "retry_types_too_many": "{option} names {count} exceptions; at most {most} are accepted. Name a class that "
    "they share.",
    "retry_unreadable": "retry={value} is no policy; write for example Retry.fixed(60, attempts=3).",
    "run_age_missing": "Give either before or older_than: which runs to delete.",
    "run_at_and_delay": "Give run_at or delay, not both.",
    "run_at_passed": "run_at {run_at} has passed; it is {now} now. Give a time from then on, or leave it out.",
    "run_unknown": "There is no run {id!r} in the log; it may have been cleaned up.",
    "scheduler_job_unknown": "There is no job {key!r}; GET /scheduler/status lists those that can be started.",
    "step_in_transaction": "The step {step!r} was asked for inside {what}, whose transaction would stay open while it "
    "runs. Call it before or after, or do its work through the connection.",
    "step_is_async": "The step {step!r} is an async function; write `await ctx.step_async(…)` in an async handler.",
    "step_not_storable": "{problem} The step {step!r} has run, and its effect stands, but its result is not kept: a "
    "later attempt runs it again. Return plain JSON within the limit.",
    "step_not_stored": "The step {step!r} has run, and its effect stands, but its result could not be stored: "
    "{problem} A later attempt runs it again unless the result was stored after all.",
    "step_rolled_back": "{problem} What the step {step!r} wrote was rolled back: it has not happened.",
    "timeout_too_short": "The {name} timeout must be longer than zero.",
    "token_needed_after_handover": "{id} was handed out before to a worker that may still run it, so its end needs a "
    "token. Send the token of your pull.",
    "token_needed_after_lease": "The lease of {id} ran out at {leased_until}, so its end needs a token. Pull again, and"
    " send the token of that pull.",
    "token_needed_of_other_caller": "{id} was pulled by {worker_id}, not by you, so its end needs the token of that "
    "pull. Without a token only the caller that pulled a job may end it.",
    "too_many_definitions": "{count:,} definitions are too many; at most {most:,} are accepted.",
    "too_many_jobs": "{owner} may have {allowed} unfinished jobs at once, and has {unfinished}. Let some end first.",
    "too_many_tags": "{count} tags are too many; at most {most} are accepted.",
    "too_many_worker_queues": "A worker serves at most {most} queues, not {count}.",
    "unique_name_in_other_queue": "An unfinished job in another queue has this unique name. Choose another.",
    "unique_name_reserved": "{name!r} cannot be a unique name: those that begin with {prefix!r} are Horae's own. "
    "Choose another.",
    "unique_name_taken": "Job {id} cannot be revived: another live job has its unique name {unique!r}. Let that one "
    "end first.",
    "wait_timeout_negative": "timeout={timeout} is below zero; give zero to look once, or more.",
}

# Why a job stands where it stands: a line without a capital and a full stop, which stands behind a label.
WHY = {
    "asked_to_stop_because": "asked to stop ({because}); its worker obeys at the next safe moment",
    "asked_to_stop_unexplained": "asked to stop; its worker obeys at the next safe moment",
    "attempt_failed": "attempt {attempt} of {max_attempts} failed; the next is due {run_at}",
    "attempt_lost": "attempt {attempt} of {max_attempts} lost; the next is due {run_at}",
    "attempt_timed_out": "attempt {attempt} of {max_attempts} timed out; the next is due {run_at}",
    "cancelled_because": "cancelled: {because}",
    "cancelled_unexplained": "cancelled: no reason was given",
    "concurrency_taken": "it waits for a slot of its concurrency key {key!r}",
    "concurrency_taken_by": "it waits for a slot of its concurrency key {key!r}, taken by {holders}",
    "done": "done",
    "done_without_result": "done, but its result could not be kept",
    "due_in_turns": "due since {run_at}; owners take turns in its queue: next when a worker has a free slot and its "
    "owner's turn has come",
    "due_since": "due since {run_at}; next when a worker of its queue has a free slot",
    "expected_by": "it is expected to succeed by {due_at} ({expect})",
    "expected_came_late": "it was expected to succeed by {due_at} ({expect}), and did so later",
    "expected_met": "it was expected to succeed by {due_at} ({expect}), and did",
    "expected_missed": "it should have succeeded by {due_at} ({expect}) and has not; its success closes this",
    "global_limit_reached": "at most {most} jobs run at once over all, and {running} are running",
    "global_limit_reached_for_tenant": "as many jobs run at once over all as may",
    "group_limit_reached": "its group {group} runs at most {most} at once, and {running} are running",
    "group_limit_reached_for_tenant": "its group {group} runs as many as it may",
    "handler_closed": "its handler {handler!r} is not open to tenants, so the house's workers leave it alone until it "
    "is declared with tenants=True; a worker with a token of the tenant's own may pull it",
    "held_by_worker": "held by worker {worker}",
    "held_by_worker_until": "held by worker {worker} until {leased_until}",
    "job_dead": "gave up after {attempt} of {max_attempts} attempts; reviving it grants new ones",
    "no_worker_judges": "no worker serves the queue {queue}: `horae worker MODULE:APP --queues {queue}=10` does, or a "
    "caller pulls it; after an hour stored evidence decides",
    "no_worker_pulls": "no worker serves the queue {queue} by itself; it waits until a caller pulls it",
    "no_worker_serves": "no worker serves the queue {queue}",
    "parent_cancelled_cancel": "it waits for {parent}, which was cancelled; it is cancelled for it as soon as a worker "
    "looks after it",
    "parent_cancelled_run": "it waits for {parent}, which was cancelled; it runs without it as soon as a worker looks "
    "after it",
    "parent_cancelled_wait": "it waits for {parent}, which was cancelled and cannot be revived (on_parent_dead=wait); "
    "cancel this job",
    "parent_dead_cancel": "it waits for {parent}, which is dead; it is cancelled for it as soon as a worker looks "
    "after it",
    "parent_dead_run": "it waits for {parent}, which is dead; it runs without it as soon as a worker looks after it",
    "parent_dead_wait": "it waits for {parent}, which is dead, and waits on (on_parent_dead=wait); revive {parent}, or "
    "cancel this job",
    "parent_gone_cancel": "it waits for {parent}, which is no longer on record; it is cancelled for it as soon as a "
    "worker looks after it",
    "parent_gone_run": "it waits for {parent}, which is no longer on record; it runs without it as soon as a worker "
    "looks after it",
    "parent_gone_wait": "it waits for {parent}, which is no longer on record and cannot be revived "
    "(on_parent_dead=wait); cancel this job",
    "parent_waits_for_lost": "it waits for {parent}, which waits for {lost}, which is lost",
    "queue_limit_reached": "its queue runs at most {most} at once, and {running} are running",
    "queue_limit_reached_for_tenant": "its queue runs as many jobs at once as it may",
    "queue_paused_unexplained": "its queue {queue} was paused by {by}",
    "queue_paused_because": "its queue {queue} was paused by {by}: {because}",
    "owner_is_quiet": "its owner {owner} has quiet hours until {until}",
    "collects": "it collects calls until {run_at} at the latest; it has {count:,} values so far",
    "debounced": "it is debounced and starts at {run_at} unless another call puts it off",
    "scheduled_for": "scheduled for {run_at}",
    "snoozed_because": "snoozed until {run_at}: {because}",
    "snoozed_unexplained": "snoozed until {run_at}",
    "on_the_way": "it was stored in a transaction of another database and is on the way to its shard",
    "waits_for_batch": "it waits for {batch}, of which {open} of {total} jobs have not ended",
    "waits_for_end": "it waits for other jobs to end",
    "waits_for_jobs": "it waits for {jobs} to succeed",
    "waits_for_others": "it waits for other jobs to succeed",
}
