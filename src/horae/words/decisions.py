"""The sentences of errors about decisions, what they cite, personas and reviews, by reason."""

ERRORS = {
    "action_text_outside": "An action is described in 1 to {most} characters. Say what is to be done.",
    "boundary_text_outside": "A boundary is a text of {least} to {most} characters, which is looked for in what the "
    "agent does.",
    "boundary_unreadable": "A boundary is a text, or an object with text and effect; the effect is one of {effects}.",
    "cite_unreadable": "{given} is no reference to a governed object. Write the kind and the id, such as "
    "memory:mem_ab12cd34ef56; kinds are {kinds}.",
    "cites_too_many": "{count} objects are cited; cite at most {most}.",
    "cites_unreadable": "cites is a list of references such as memory:mem_ab12cd34ef56, not {given}; kinds are "
    "{kinds}.",
    "decision_cites_decision": "A decision rests on objects, and {cite} is a decision. Cite what that one rests on.",
    "decision_unknown": "There is no decision {id!r}; `horae decide list` shows those there are.",
    "erase_not_confirmed": "Nothing was erased. Type the id {id} to confirm, because erasing cannot be undone.",
    "erase_one_of": "Give the id of an object or a subject, one of them.",
    "governed_reason_outside": "A reason, a note or a question is a text of at most {most} characters. Shorten it.",
    "object_unknown": "There is no {kind} {id!r}.",
    "persona_list_unreadable": "{name} of a persona are a list of at most {most} entries.",
    "persona_unknown": "The agent {agent!r} has no persona; `horae persona set` makes one.",
    "persona_version_old": "The persona of {agent!r} is at version {version}, not {expected}. Read it again and "
    "repeat the change.",
    "question_missing": "A review needs a question that a person can answer.",
    "review_answered": "Review {id} is closed already: {answer} by {answered_by}. That answer counts.",
    "review_during_rollback": "Review {id} cannot be approved while a rollback of the agent is not finished. Answer it "
    "later.",
    "review_ground_refuted": "Review {id} cannot be approved: what it rests on is refuted. Reject it.",
    "review_of_ones_own": "{actor} proposed what review {id} is about, or decided it. Let another person answer.",
    "review_timed_out": "Review {id} was not answered by {deadline} and is deferred. Ask again.",
    "review_unknown": "There is no review {id!r}; `horae review list` shows those there are.",
    "rollback_unknown": "There is no rollback {id!r}.",
}

# Why an act is held: what it cites cannot be relied on.
WHY = {
    "cite_contested": "{cite} is contested",
    "cite_never_verified": "{cite} was never verified",
    "cite_not_active": "{cite} is {state}, not active",
    "cite_not_granted": "{cite} was {outcome}",
    "cite_rolled_back": "{cite} was rolled back",
    "cite_verified_long_ago": "{cite} was last verified at {verified_at}, more than {age:span} ago",
}
