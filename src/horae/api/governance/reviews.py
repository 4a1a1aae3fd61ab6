"""Reviews: questions to a person, each with a deadline."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar, Literal

from horae.actions.governance import reviews
from horae.api.here import Here
from horae.api.operation import GET, PAGES, POST, Call, Listing, Page, Room, S
from horae.api.values import Get, drop_none, to_public
from horae.core.cursors import cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.governance.reviews import Answer, ReviewKind, ReviewState
from horae.core.values import PYDANTIC

GivenAnswer = Literal["approve", "reject", "ask_more"]
USER, PERSON, ASKER = ("tasks", "review"), ("review",), ("tasks",)


def _of_review(name: str) -> Get:
    return lambda found: getattr(found[0], name)


@dataclass(frozen=True, kw_only=True)
class Review:
    """A question to a person about an object (``about``) or a ``decision``.

    It is closed once: by an ``answer``, or at its ``deadline`` with ``timeout``, which changes nothing. ``successor``
    is the decision that an approval made; ``automatic``: no caller asked for it.
    """

    __pydantic_config__ = PYDANTIC
    FROM_REVIEW: ClassVar[tuple[str, ...]] = (
        "id", "owner", "kind", "state", "decision", "agent", "question", "automatic", "opened_at", "opened_by",
        "deadline", "answer", "answered_at", "answered_by", "note", "successor",
    )  # fmt: skip
    DERIVED: ClassVar[dict[str, Get]] = {
        **{name: _of_review(name) for name in FROM_REVIEW},
        "about": lambda found: found[1],
    }

    id: str
    owner: str
    kind: ReviewKind
    state: ReviewState
    agent: str
    opened_at: datetime
    opened_by: str
    deadline: datetime
    about: str | None = None
    decision: str | None = None
    question: str | None = None
    automatic: bool = False
    answer: Answer | None = None
    answered_at: datetime | None = None
    answered_by: str | None = None
    note: str | None = None
    successor: str | None = None


class Reviews(Room[S]):
    """Reviews. Only a person answers one, never the actor who proposed the object or took the decision."""

    @POST("/governance/reviews", *ASKER)
    def ask(self, about: str, question: str, *, owner: str | None = None) -> Call[Review]:
        """Ask a person about an object or a decision (``memory:mem_ab12``); where that is asked already, return it."""

        def act(here: Here) -> Any:
            whose = here.caller.resolve_owner(owner)
            opened = reviews.ask_review(here.world, about, owner=whose, question=question, actor=here.actor)
            return reviews.get_review(here.world, opened.id, owner=whose)

        body = {"about": about, "question": question}
        return Call(Review, act, query=drop_none(owner=owner), body=body, repeats=True)

    @POST("/governance/reviews/{review_id}/answer", *PERSON)
    def answer(self, review_id: str, answer: GivenAnswer, *, note: str = "", owner: str | None = None) -> Call[Review]:
        """Answer a review; the first answer counts, and after the deadline none does."""

        def act(here: Here) -> Any:
            whose = here.caller.resolve_owner(owner)
            reviews.answer_review(here.world, review_id, answer, owner=whose, person=here.caller, note=note)
            return reviews.get_review(here.world, review_id, owner=whose)

        body = {"answer": answer, **drop_none(note=note or None)}
        return Call(Review, act, at={"review_id": review_id}, query=drop_none(owner=owner), body=body)

    @GET("/governance/reviews/{review_id}", *USER)
    def get(self, review_id: str, *, owner: str | None = None) -> Call[Review]:
        """Return one review."""

        def fetch(here: Here) -> Any:
            return reviews.get_review(here.world, review_id, owner=here.caller.resolve_owner(owner))

        return Call(Review, fetch, at={"review_id": review_id}, query=drop_none(owner=owner))

    @PAGES("/governance/reviews", *USER)
    def list(
        self,
        *,
        state: ReviewState | Iterable[ReviewState] = (),
        owner: str | None = None,
        limit: int | None = None,
    ) -> Listing[Review]:
        """List reviews, newest first."""
        states = [state] if isinstance(state, str) else sorted(state)

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[Any], str | None]:
            begin, whose = read_cursor(cursor, int), here.caller.filter_owner(owner)
            before = None if begin is None else begin[0]
            found = reviews.find_reviews(here.world, owner=whose, states=states, limit=size, before=before)
            further = cursor_from([found[-1][0].number]) if len(found) == size else None
            return [to_public(Review, each) for each in found], further

        first = Call[Page[Review]](Page[Review], query=drop_none(state=states or None, owner=owner))
        return Listing(first, limit, fetch, order=attrgetter("opened_at", "id"))
