"""The arguments that tools share: their bounds and the descriptions that a model reads."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, Field, StrictBool

from horae.core.attention.directives import MAX_KEYS, MAX_NOTE
from horae.core.attention.task import HIGHEST, LOWEST
from horae.core.governance.objects import MAX_SUBJECT
from horae.core.governance.references import MAX_CITES
from horae.core.governance.verdicts import MAX_EVIDENCE, MAX_REFERENCE
from horae.errors import InvalidPayload

MAX_GOAL = 4000
MAX_REASON = 500
MAX_ID = 2**63 - 1
LONGEST_WAIT = 30 * 86_400  # seconds
LONGEST_CALL = 50  # seconds that a call is held open: hosts give up after a minute


def storable(text: str) -> str:
    """Refuse text that a database would not keep as it is."""
    if "\x00" in text:
        raise InvalidPayload("nul_character", what="text")
    return text


Text = Annotated[str, AfterValidator(storable)]
TaskId = Annotated[str, Field(pattern=r"^t([0-9]{1,4}x)?[0-9]{1,19}$", description="The id of a task, such as t12.")]
Goal = Annotated[str, Field(min_length=1, max_length=MAX_GOAL, description="What shall be achieved, in plain words.")]
Key = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="Names this request. The same key again gives what it made the first time, so repeating is safe.",
    ),
]
Priority = Annotated[
    int,
    Field(
        ge=LOWEST,
        le=HIGHEST,
        description="0-29 background, 30-59 normal, 60-89 urgent, 90-99 critical. Ten above the focus interrupts it.",
    ),
]
Context = Annotated[Any, Field(description="Any JSON to get back when the task goes on; left out: what is kept stays.")]
ClearContext = Annotated[
    StrictBool, Field(description="True forgets the context that is kept; then leave context out. null keeps it.")
]
Note = Annotated[
    Text | None, Field(max_length=MAX_NOTE, description="A cue for coming back; left out: the last one stays.")
]
Turn = Annotated[
    int | None,
    Field(ge=1, le=2**31, description="The turn that this answers. With it, a repeated call does no harm."),
]
Reason = Annotated[Text, Field(max_length=MAX_REASON, description="Why, in plain words.")]
Timeout = Annotated[
    float, Field(gt=0, le=LONGEST_WAIT, description="Seconds until the wait ends by itself; nothing waits for ever.")
]
Patience = Annotated[
    float,
    Field(ge=0, le=LONGEST_CALL, description="Seconds to wait at most; 0 looks once. Most hosts give up after 60."),
]
Grant = Annotated[
    Text, Field(min_length=1, max_length=100, description="The grant in the data of the fact `confirmed`.")
]
Keys = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]],
    Field(min_length=1, max_length=MAX_KEYS, description="Events to wait for; the first one wins."),
]
Moment = Annotated[AwareDatetime | None, Field(description="ISO 8601 with a zone, such as 2026-11-16T09:00:00Z.")]
Cites = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]] | None,
    Field(
        max_length=MAX_CITES,
        description="What the decision rests on: governed objects by kind and id, such as memory:mem_ab12cd34ef56.",
    ),
]
Subject = Annotated[
    Text,
    Field(
        min_length=1, max_length=MAX_SUBJECT, description="Who or what it is about; recall finds it by the same words."
    ),
]
ObjectName = Annotated[
    str,
    Field(
        min_length=1, max_length=200, description="Kind and id of what is remembered, such as memory:mem_ab12cd34ef56."
    ),
]
References = Annotated[
    list[Annotated[Text, Field(min_length=1, max_length=MAX_REFERENCE)]],
    Field(
        max_length=MAX_EVIDENCE,
        description="Where it can be checked: an address, a message or a document each, such as chat:2026-11-16.",
    ),
]
RestsOn = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]] | None,
    Field(
        max_length=MAX_CITES,
        description="What it was concluded from, by kind and id: memories for an experience, both for a cognition.",
    ),
]
Data = Annotated[dict[str, Any] | None, Field(description="Any JSON object.")]
Limit = Annotated[int, Field(ge=1, le=100, description="How many at most.")]
TaskStates = Literal["created", "ready", "running", "waiting", "suspended", "completed", "failed", "cancelled"]
ScheduleId = Annotated[str, Field(min_length=1, max_length=200, description="As schedule_list tells.")]
WaitId = Annotated[int, Field(ge=1, le=MAX_ID, description="As confirm_list tells.")]
Verdict = Annotated[StrictBool, Field(description="true approves, false denies.")]
