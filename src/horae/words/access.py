"""The sentences of errors about tokens, scopes and tenants, by reason."""

ERRORS = {
    "agent_of_token": "This token is held by the agent {agent!r} and acts for no other. Leave agent out.",
    "allow_http_unreadable": "allow_http is true or false.",
    "code_invalid": "This login code is not valid: used already, older than ten minutes, or made for another "
    "database. Make another for the database of this service: `horae console link`.",
    "weight_outside": "weight is a whole number from 1 to {most:,}; twice the weight is twice the share.",
    "max_enabled_tasks_outside": "max_enabled_tasks is a number from 0 (no limit) to {most:,}, or null.",
    "not_limited_to_queues": "This token is limited to the queues {queues}, and this is not about a queue. Use a "
    "token that was made without --queues.",
    "owner_list_unreadable": "{expected}, with at most {most} entries.",
    "person_needed": "This needs a person, and {actor} is none. Use the command line where the database is, the "
    "console, or a token with the scope review or admin that was made without --agent.",
    "ports_outside": "ports are numbers from 1 to 65535.",
    "queue_not_served": "This token does not serve the queue {queue!r}; it serves {queues}.",
    "scope_missing": "This needs one of the scopes {needed}; yours are {held}. Ask the operator for a token with it: "
    "horae token create --scopes …",
    "scope_unknown": "{scope!r} is not a scope; choose from {choices}.",
    "scopes_missing": "A token without scopes may do nothing; choose from {choices}.",
    "session_ended": "You are logged out: the session has ended, or its token has. Log in again.",
    "session_unknown": "There is no session {id}; it may have ended.",
    "tenant_unknown": "There is no tenant {owner!r}.",
    "tenants_for_operator_only": "Only an operator sees tenants. Use a token with the scope admin, or a token of the "
    "house.",
    "token_invalid": "The token is not valid: unknown, expired or revoked. Ask the operator for a new one.",
    "token_life_too_long": "A token cannot live for {expires_in:span}; expires_in may be at most {most_days:,} days, "
    "or None.",
    "token_life_too_short": "A token cannot live for {expires_in:span}; expires_in must be at least one minute.",
    "token_missing": "Missing token. Send the header Authorization: Bearer <token>.",
    "token_unknown": "There is no token {id}; `horae token list` shows those there are.",
}
