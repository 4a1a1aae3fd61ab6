"""Reviews: questions to a person, each with a deadline."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, get_args

from horae.core.dataclass import dataclass

Answer = Literal["approve", "reject", "ask_more", "timeout"]
ReviewKind = Literal["gate", "quarantine", "decision", "asked"]  # what opened it
ReviewState = Literal["open", "closed"]
ANSWERS: tuple[Answer, ...] = get_args(Answer)
REVIEW_KINDS: tuple[ReviewKind, ...] = get_args(ReviewKind)
ANSWERED_WITHIN = timedelta(minutes=60)


@dataclass(frozen=True, slots=True)
class Review:
    """A question to a person about an object or a decision; nothing changes until it is answered."""

    number: int
    owner: str
    id: str
    kind: ReviewKind
    opened_at: datetime
    opened_by: str
    deadline: datetime
    state: ReviewState = "open"
    object: int | None = None
    decision: str | None = None
    agent: str = "*"
    automatic: bool = False  # opened by itself; there is a limit to those
    question: str | None = None
    job: int | None = None  # that closes it at its deadline
    answer: Answer | None = None
    answered_at: datetime | None = None
    answered_by: str | None = None
    note: str | None = None
    successor: str | None = None  # the decision that an approval makes
