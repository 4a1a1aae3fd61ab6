"""The verbs of budgets: set and read them, draw on them, settle what attempts have spent."""
