"""The sentences of errors about governed objects, by reason."""

ERRORS = {
    "attend_priority_outside": "The priority of thinking about an object is a whole number from 0 to {most}: it never "
    "takes the focus from real work.",
    "attend_timeout_outside": "The timeout of Attend is at least one second and at most {most_days} days.",
    "attend_unreadable": "attend is an object with lane, kind and timeout in seconds, and nothing stands beside it. It "
    "has the fields {fields}.",
    "content_missing": "An object needs content: a text that is not empty.",
    "content_too_large": "The content has {size:,} bytes; at most {most:,} are accepted. Keep it elsewhere and store a "
    "reference.",
    "cost_not_whole": "The cost in {unit} is a whole number from 0 on. Round it up; money is counted in micros.",
    "cost_unreadable": "A cost is an object of whole numbers by unit. Use one or more of {units}.",
    "counterexample_unreadable": "counterexample is 'survived' or left out.",
    "event_illegal": "{kind} {id} is {state} and cannot be {event}. From {state} it can be: {possible}.",
    "evidence_fields_unknown": "A piece of evidence is a reference, or an object with the fields {fields}; only "
    "reference is needed.",
    "evidence_missing": "Give at least one piece of evidence.",
    "evidence_note_unreadable": "The note of a piece of evidence is a text of at most {most} characters. Shorten it.",
    "evidence_unreadable": "Evidence is a list of at most {most} references. Send a list of texts.",
    "evidence_without_reference": "Each piece of evidence needs a reference of 1 to {most} characters that says "
    "where it can be found.",
    "expiry_passed": "expires_at {expires_at} has passed already. Give a later time, or none.",
    "forecast_too_far": "A forecast goes from now to at most {most_days} days ahead.",
    "ground_retracted": "{kind} {id} was retracted, so that nothing can rest on it. Leave it out.",
    "job_of_object": "{id} is the one job of {kind} {object_id}, which keeps it going. Reschedule it, or archive or "
    "retract the object: horae object archive {object_id}.",
    "job_without_object": "{id} names no object, so that {handler} has nothing to look at. Propose an object; its jobs "
    "are planned by itself.",
    "link_downwards": "A {kind} cannot rest on {lower} {id}: links go from memory to experience to cognition only.",
    "object_ambiguous": "There are several objects with the id {id}: {kinds}. Name the kind.",
    "object_changed": "{kind} {id} was changed by someone else meanwhile. Read it again and repeat.",
    "object_cited": "{kind} {id} is cited by an active cognition. Archive that first.",
    "object_exists": "There is a {kind} {id} already, with other content. Choose another id, or supersede that one.",
    "object_is_final": "{kind} {id} was retracted, for good. Propose another one.",
    "object_job_priority": "{id} has the priority of its object's risk, {risk}. Leave the priority out.",
    "object_of_ones_own": "{actor} has proposed {kind} {id}. Let another actor judge it.",
    "object_on_connection": "Stored objects have jobs of their own, which a caller's transaction cannot move: {ids}. "
    "Ask for the action without connection=.",
    "object_protected": "{kind} {id} is protected and is never archived.",
    "object_superseded": "{kind} {id} was superseded by {by}. Use that one.",
    "object_unknowable": "No observation could decide {kind} {id}. Add new evidence, or let a person ask.",
    "object_version_old": "{kind} {id} has version {version} now, not {expected}. Read it again and repeat.",
    "policy_changed": "The policy of {agent} for {kind} was changed by another caller meanwhile. Read it again and "
    "repeat.",
    "policy_counts_unreadable": "A policy counts from 0 on, stretches by 1 or more, and its mode is one of explore, "
    "conservative, abstain and escalate.",
    "policy_field_unknown": "A policy has no setting {field}. Choose from {fields}.",
    "policy_half_lives_unreadable": "half_lives gives a span in seconds, or null for none, for one or more of "
    "{categories}.",
    "policy_list_unreadable": "{name} is a list of at most {most} values.",
    "policy_share_unreadable": "{name} is a share between 0 and 1, without both ends.",
    "policy_span_unreadable": "{name} is a span above zero and of at most {most_days} days.",
    "policy_unreadable": "A policy is an object with one or more of the settings {fields}.",
    "policy_version_old": "The policy of {agent} for {kind} has version {version} now, not {expected}. Read it "
    "again and repeat.",
    "removals_used_up": "{kind} {id} cannot be archived today: the removals of this owner's day are used up. Try "
    "again tomorrow (UTC).",
    "report_ahead": "A report ends now or earlier, not at {until}. Leave until out.",
    "report_period_unfit": "The period of a report is above zero and at most {most_days} days.",
    "review_closed": "Review {id} is closed. Open another one.",
    "share_unreadable": "{name} is a number from 0 to 1, not {value}.",
    "successor_unfit": "{id} cannot take the place of a {kind}: it must be an object of the same kind that was not "
    "retracted.",
    "supersede_cycle": "{kind} {id} cannot be superseded by {by}: that would close a cycle.",
    "survived_without_counterexample": "Only a counter-example can be survived. Give it the kind counterexample.",
    "too_many_objects": "{count} objects are too many for one call; at most {most} are accepted. Send them in parts.",
    "verdict_needs_person": "{kind} {id} is of high risk: a verdict about it comes from a verifier's job or a person.",
    "verdict_note_unreadable": "A note is a text of at most {most} characters. Shorten it.",
    "verdict_unknown": "Unknown verdict {verdict}; choose one of {choices}.",
    "verdict_unreadable": "A verdict is an object with the fields {fields}; only verdict is needed.",
    "verify_budget_used": "{kind} {id} is uncertain and was verified {budget} times already, which is its budget. "
    "Add evidence, or let a person ask.",
}
# The report on governance, and what is above its line in it.
WHY = {
    "report_dead_letters": "Dead letters: {count}. Look with `horae job list --state dead`, mend the cause, and revive "
    "them.",
    "report_due": "Due and waiting: {count:,}; late by {p50:,} s (p50), {p95:,} s (p95), {longest:,} s at most.",
    "report_incomplete": "There is more on record than a report counts at once; the oldest was left out. Choose a "
    "shorter period.",
    "report_jobs": "Jobs: {jobs:,}, of which {succeeded:,} succeeded, {put_back:,} were put back and {dead:,} died; "
    "success rate {success}, retry rate {retry}.",
    "report_late": "The 95th percentile of lateness is {seconds:,} s, above {most} s. Start another worker.",
    "report_many_retries": "{share} of the jobs had a failed attempt, more than {most}. Look at the errors of the "
    "verifiers: `horae errors list`.",
    "report_nothing_due": "Nothing is due and waiting.",
    "report_objects": "Objects: {total:,}, of which {live:,} are neither archived nor retracted.",
    "report_overdrawn": "Budgets that were exceeded in their present period: {names}.",
    "report_reviews": "Reviews: {waiting:,} wait for an answer; {opened:,} were opened in the window, {answered:,} of "
    "them are closed.",
    "report_rollback_open": "Rollbacks that are not finished: {count}. Until then high-risk decisions of their agents "
    "are blocked.",
    "report_window": "Governance from {since} to {until}, UTC.",
}
