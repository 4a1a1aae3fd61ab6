"""The sentences about budgets: of errors, and why a job waits for one."""

ERRORS = {
    "adjust_below_zero": "{budget} has used {settled} in this period; it cannot be corrected by {amount}.",
    "adjust_reason_missing": "Say why {budget} is corrected: reason=…, or --reason on the command line.",
    "amount_unreadable": "{text} is no whole number; write 12000, or 12_000.",
    "budget_changed": "Budget number {budget} was changed by another transaction meanwhile. Try again.",
    "budget_on_all_nodes": "A job that every node runs for itself can draw on no budget. Drop budget=, or mode=.",
    "budget_too_small": "{amount} can never be spent from {budget}, whose capacity is {capacity}. Raise the capacity, "
    "or spend in smaller steps.",
    "budget_unknown": "There is no budget {budget}. `horae budget list` shows those that are set.",
    "budget_unreadable": "{given} is no budget. Give a name such as llm, or a name and an agent: llm/researcher.",
    "cost_without_budget": "cost says what an attempt takes from a budget. Give budget= too.",
    "spending_key_used": "The key {key} stands for {amount} {unit} in this attempt already. Use another key.",
    "spending_unknown": "Nothing was reserved under the key {key} in this attempt. Call spend before spent.",
    "spending_without_budget": "{job_id} draws on no budget, so it cannot spend. Declare {handler} with budget=….",
}
WHY = {
    "budget_empty": "waits for its budget: {budget} has {left} of {capacity} left and {amount} are needed; it comes "
    "back at {run_at}",
    "budget_empty_for_good": "waits for its budget: {budget} has {left} of {capacity} left, {amount} are needed, and "
    "it is never refilled; raise it with `horae budget set`",
    "budget_never_enough": "waits for its budget: an attempt needs {amount}, more than {budget} holds when it is full "
    "({capacity}); raise it with `horae budget set`",
    "budget_has_room": "waited for its budget {budget}, which has room again; it comes back at {run_at}",
}
