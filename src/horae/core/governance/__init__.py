"""Governance: what an agent remembers comes due. Machines, timers, verdicts, gates and budgets, as pure functions."""
