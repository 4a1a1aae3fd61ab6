"""The verbs: one function, one transaction, one door for library, HTTP, worker and command line."""
