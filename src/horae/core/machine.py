"""A state machine as a table.

The table is the code, the diagram and the test: whatever is not drawn is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from horae.core.dataclass import dataclass
from horae.errors import NotAllowed

S = TypeVar("S", bound=str)


@dataclass(frozen=True)
class Machine(Generic[S]):
    """A state machine: the transitions by event and state; no others are possible."""

    name: str
    start: S
    arrows: Mapping[tuple[str, str], S]

    @property
    def states(self) -> tuple[str, ...]:
        """All states, in the order in which the table first mentions them."""
        named: list[str] = [self.start]
        for (before, _), after in self.arrows.items():
            named += [before, after]
        return tuple(dict.fromkeys(named))

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(event for _, event in self.arrows))

    def after(self, state: str, event: str) -> S:
        """Return the state that follows, or a refusal that names what would be possible."""
        try:
            return self.arrows[state, event]
        except KeyError:
            possible = [name for (before, name) in self.arrows if before == state]
            if not possible:
                raise NotAllowed("already_ended", thing=self.name, state=state, event=event) from None
            refusal = NotAllowed("transition_refused", thing=self.name, state=state, event=event, possible=possible)
            raise refusal from None

    def is_final(self, state: str) -> bool:
        return all(before != state for before, _ in self.arrows)

    def diagram(self) -> str:
        """Return the table as a Mermaid state diagram, for the documentation."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.start}"]
        lines += [f"    {before} --> {after}: {event}" for (before, event), after in self.arrows.items()]
        lines += [f"    {state} --> [*]" for state in self.states if self.is_final(state)]
        return "\n".join(lines)
