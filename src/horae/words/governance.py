"""The sentences of errors about governed objects, by reason."""

ERRORS = {
    "cost_not_whole": "The cost in {unit} is a whole number from 0 on. Round it up; money is counted in micros.",
    "cost_unreadable": "A cost is an object of whole numbers by unit. Use one or more of {units}.",
    "counterexample_unreadable": "counterexample is 'survived' or left out.",
    "evidence_unreadable": "Evidence is a list of at most {most} references. Send a list of texts.",
    "evidence_without_reference": "Each piece of evidence needs a reference of 1 to {most} characters that says where "
    "it can be found.",
    "policy_counts_unreadable": "A policy counts from 0 on, stretches by 1 or more, and its mode is one of explore, "
    "conservative, abstain and escalate.",
    "policy_share_unreadable": "{name} is a share between 0 and 1, without both ends.",
    "policy_span_unreadable": "{name} is a span above zero and of at most {most_days} days.",
    "share_unreadable": "{name} is a number from 0 to 1, not {value}.",
    "verdict_note_unreadable": "A note is a text of at most {most} characters. Shorten it.",
    "verdict_unknown": "Unknown verdict {verdict}; choose one of {choices}.",
    "verdict_unreadable": "A verdict is an object with the fields {fields}; only verdict is needed.",
}
