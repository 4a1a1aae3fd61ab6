"""Budgets, what each period has used of them, and what attempts have reserved."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Index, PrimaryKeyConstraint

from horae.core.governance.budgets import Budget, BudgetPeriod, Reservation
from horae.stores.codecs import COUNT, INSTANT, NAME, NUMBER, ROW_NUMBER, text
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark

FIXED = Mark.FIXED

BUDGETS = Declaration(
    "horae_budgets",
    Budget,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("owner", NAME, FIXED, required=True),
    Field("name", text(100), FIXED, required=True),
    Field("agent", text(100), FIXED, required=True),
    Field("unit", text(8), FIXED, required=True),
    Field("period", text(8), FIXED, required=True),
    Field("capacity", NUMBER),  # NULL: it only counts
    Field("created_at", INSTANT, FIXED),
    Field("changed_at", INSTANT),
    Field("changed_by", NAME, required=True),
    Index("horae_budgets_name", "owner", "name", "agent", "unit", "period", unique=True),
    info=NEVER_AGAIN,
)
budgets = BUDGETS.table

# A period is a row, made when it is first used. The check is the last guard: no code can spend what is not there.
PERIODS = Declaration(
    "horae_budget_periods",
    BudgetPeriod,
    Field("budget", NUMBER, FIXED, column="budget_id", required=True),
    Field("starts_at", INSTANT, FIXED, required=True),
    Field("capacity", NUMBER),
    Field("settled", NUMBER, required=True),
    Field("reserved", NUMBER, required=True),
    Field("overdrawn", NUMBER, required=True),
    Field("put_backs", COUNT, required=True),
    PrimaryKeyConstraint("budget_id", "starts_at"),
    CheckConstraint("settled >= 0 AND reserved >= 0", name="horae_budget_periods_sign"),
    CheckConstraint(
        "capacity IS NULL OR overdrawn > 0 OR settled + reserved <= capacity", name="horae_budget_periods_capacity"
    ),
)
budget_periods = PERIODS.table

RESERVATIONS = Declaration(
    "horae_reservations",
    Reservation,
    Field("job", NUMBER, FIXED, column="job_id", required=True),
    Field("token", NUMBER, FIXED, required=True),
    Field("key", text(200), FIXED, column="step", required=True),
    Field("budget", NUMBER, FIXED, column="budget_id", required=True),
    Field("starts_at", INSTANT, FIXED, required=True),
    Field("amount", NUMBER, required=True),
    Field("state", text(8), required=True),
    Field("spent", NUMBER),
    Field("at", INSTANT, required=True),
    PrimaryKeyConstraint("job_id", "token", "step", "budget_id", "starts_at"),
    Index("horae_reservations_period", "budget_id", "starts_at", "state"),
    Index("horae_reservations_state", "state", "at"),
)
reservations = RESERVATIONS.table
