"""``horae object …``: what can be done with one object; it joins the group of :mod:`horae.cli.governance.object`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.arguments import instant_from
from horae.cli.governance.decide import Owner
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

if TYPE_CHECKING:
    from datetime import datetime

    from horae.api.governance.object_values import GovernedObject
    from horae.cli.verbs import Verbs

Id = Annotated[str, typer.Argument(metavar="ID", help="The object: mem_ab12, or memory:mem_ab12.")]
Version = Annotated[
    int | None, typer.Option("--if-version", metavar="N", help="Refuse it if the object has another version by now.")
]
Pieces = Annotated[
    list[str] | None, typer.Option("--evidence", metavar="REF", help="Where it can be found; repeatable.")
]


def line_about(it: GovernedObject, now: datetime) -> str:
    """Return an object in one line."""
    state = it.status if it.epistemic_state is None else f"{it.status}/{it.epistemic_state}"
    flags = "".join(f", {flag}" for flag in ("contested", "stalled", "protected") if getattr(it, flag))
    due = "nothing planned"
    if it.next_action_at is not None:
        due = f"{it.next_action} {words.both(it.next_action_at, now)}"
    return f"{it.kind} {it.id} (version {it.version}) is {state}{flags}; {due}"


def act_on(terminal: Terminal, act: Callable[[Verbs], GovernedObject]) -> None:
    """Do a verb to an object and show it."""
    with reached(terminal) as here:
        done = act(here)
        now = here.now()
    terminal.result(to_json(done), line_about(done, now))


def register(group: typer.Typer) -> None:
    """Add the verbs to the group of objects."""
    for name, function in VERBS.items():
        command(group, name, by_url=True)(function)


def use(terminal: Terminal, object_id: Id, owner: Owner = None, reason: Reason = "", version: Version = None) -> None:
    """Say that an object was used: its clock of use starts again."""
    act_on(terminal, lambda here: here.objects.use(object_id, reason=reason, expected_version=version, owner=owner))


def evidence(
    terminal: Terminal,
    object_id: Id,
    references: Annotated[list[str], typer.Argument(metavar="REF…", help="Where the evidence can be found.")],
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="supports, contradicts, reinforces or counterexample.")
    ] = "supports",
    survived: Annotated[bool, typer.Option("--survived", help="The object survived this counter-example.")] = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="A note; it can be erased.")] = "",
    owner: Owner = None,
    reason: Reason = "",
    version: Version = None,
) -> None:
    """Add evidence; a reference that is known is not new.

    What was archived comes back as uncertain, what was doubtful is looked at again at once.
    """
    pieces = [{"reference": each, "kind": kind, "survived": survived, "note": note} for each in references]
    with reached(terminal) as here:
        added = here.objects.evidence(object_id, pieces, reason=reason, expected_version=version, owner=owner)
        now = here.now()
    text = f"{len(added.new)} new, {len(added.known)} known\n{line_about(added.object, now)}"
    terminal.result(to_json(added), text)


def conclude(
    terminal: Terminal,
    object_id: Id,
    verdict: Annotated[str, typer.Argument(metavar="VERDICT", help="confirmed, refuted, inconclusive or unknowable.")],
    pieces: Pieces = None,
    confidence: Annotated[float | None, typer.Option("--confidence", metavar="SHARE", help="From 0 to 1.")] = None,
    survived: Annotated[bool, typer.Option("--survived", help="It survived a counter-example.")] = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What was found.")] = "",
    owner: Owner = None,
    reason: Reason = "",
    version: Version = None,
) -> None:
    """Bring a verdict about an object."""
    act_on(
        terminal,
        lambda here: here.objects.conclude(
            object_id,
            cast("Any", verdict),
            evidence=pieces or [],
            confidence=confidence,
            counterexample="survived" if survived else None,
            note=note,
            reason=reason,
            expected_version=version,
            owner=owner,
        ),
    )


def verify(
    terminal: Terminal,
    object_id: Id,
    action: Annotated[
        str | None,
        typer.Option("--action", metavar="ACTION", help="verify, revalidate, decay, archive or reinstate-check."),
    ] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Not now, but then.")] = None,
    owner: Owner = None,
    reason: Reason = "",
    version: Version = None,
) -> None:
    """Ask for a verification, or another action.

    The object's one job moves there.
    """
    when = None if at is None else instant_from(at)
    act_on(
        terminal,
        lambda here: here.objects.verify_now(
            object_id, action=cast("Any", action), at=when, reason=reason, expected_version=version, owner=owner
        ),
    )


def contest(
    terminal: Terminal,
    object_id: Id,
    pieces: Pieces = None,
    owner: Owner = None,
    reason: Reason = "",
    version: Version = None,
) -> None:
    """Say that an object may be wrong, until that is cleared.

    A memory is quarantined, and a person is asked; what rests on it is questioned.
    """
    act_on(
        terminal,
        lambda here: here.objects.contest(
            object_id, evidence=pieces or [], reason=reason, expected_version=version, owner=owner
        ),
    )


def clear(
    terminal: Terminal,
    object_id: Id,
    pieces: Pieces = None,
    owner: Owner = None,
    reason: Reason = "",
    version: Version = None,
) -> None:
    """Say that a suspected object holds after all."""
    act_on(
        terminal,
        lambda here: here.objects.clear(
            object_id, evidence=pieces or [], reason=reason, expected_version=version, owner=owner
        ),
    )


def reject(
    terminal: Terminal,
    object_id: Id,
    pieces: Pieces = None,
    owner: Owner = None,
    reason: Reason = "",
    version: Version = None,
) -> None:
    """Say that a suspected memory is forged, or a cognition refuted.

    What rests on it is taken back.
    """
    act_on(
        terminal,
        lambda here: here.objects.reject(
            object_id, evidence=pieces or [], reason=reason, expected_version=version, owner=owner
        ),
    )


def archive(
    terminal: Terminal, object_id: Id, owner: Owner = None, reason: Reason = "", version: Version = None
) -> None:
    """Archive an object; it is kept, and no longer recalled."""
    act_on(terminal, lambda here: here.objects.archive(object_id, reason=reason, expected_version=version, owner=owner))


def reinstate(
    terminal: Terminal, object_id: Id, owner: Owner = None, reason: Reason = "", version: Version = None
) -> None:
    """Bring an archived object back, as uncertain."""
    act_on(
        terminal, lambda here: here.objects.reinstate(object_id, reason=reason, expected_version=version, owner=owner)
    )


def supersede(
    terminal: Terminal,
    object_id: Id,
    by: Annotated[str, typer.Argument(metavar="BY", help="The object that takes its place.")],
    owner: Owner = None,
    reason: Reason = "",
    version: Version = None,
) -> None:
    """Archive an object because another one has taken its place."""
    act_on(
        terminal,
        lambda here: here.objects.supersede(object_id, by, reason=reason, expected_version=version, owner=owner),
    )


def retract(
    terminal: Terminal, object_id: Id, owner: Owner = None, reason: Reason = "", version: Version = None
) -> None:
    """Take an object back for good."""
    act_on(terminal, lambda here: here.objects.retract(object_id, reason=reason, expected_version=version, owner=owner))


VERBS: dict[str, Callable[..., None]] = {
    "use": use, "evidence": evidence, "conclude": conclude, "verify": verify, "contest": contest, "clear": clear,
    "reject": reject, "archive": archive, "reinstate": reinstate, "supersede": supersede, "retract": retract,
}  # fmt: skip
