"""The options of ``using``: default, consequence and an example, each stated once.

The docstring of ``using`` and its part of the reference page are generated from here; a test compares the names with
its signature.
"""

from __future__ import annotations

from horae.core.dataclass import dataclass


@dataclass(frozen=True)
class UsingOption:
    """The description of an option of one enqueue; *default* in words, *example* as it stands in a call."""

    text: str
    default: str
    example: str


OF_DEFINITION = "as declared"
USING: dict[str, UsingOption] = {
    "delay": UsingOption("Run it so long after now.", "at once", 'delay="10m"'),
    "run_at": UsingOption(
        "Run it at this instant, which needs an offset; one that has passed runs at once and is marked late.",
        "at once",
        "run_at=datetime(2030, 1, 7, 6, tzinfo=UTC)",
    ),
    "priority": UsingOption(
        "Run it before others that are due at the same time: high, medium, low.", OF_DEFINITION, 'priority="high"'
    ),
    "key": UsingOption(
        "Store one job for this key, however often it is enqueued; the same key with another request is refused. The "
        "key is kept after the job has ended.",
        "none",
        'key="receipt:42"',
    ),
    "unique": UsingOption(
        "Store one job of this name while an earlier one has not ended; afterwards the name is free again.",
        "none",
        'unique="nightly-report"',
    ),
    "queue": UsingOption("Store it in this queue.", OF_DEFINITION, 'queue="mail"'),
    "retry": UsingOption(
        "Try again after a failure by this policy.", OF_DEFINITION, 'retry=Retry.fixed("30s", attempts=5)'
    ),
    "timeout": UsingOption("Stop an attempt that takes longer, as failed.", OF_DEFINITION, 'timeout="5m"'),
    "budget": UsingOption("Draw on the budgets of this name.", OF_DEFINITION, 'budget="llm"'),
    "cost": UsingOption(
        "Reserve so much before each attempt, as an upper bound; only with `budget`.",
        OF_DEFINITION,
        'budget="llm", cost={"tokens": 2000}',
    ),
    "owner": UsingOption(
        "Let it belong to this tenant, who then sees it and whose limits hold for it.", "the house", 'owner="acme"'
    ),
    "after": UsingOption(
        "Wait until these jobs have succeeded; name them by id or as `enqueue` answered them.",
        "none",
        'after=["job_1"]',
    ),
    "on_parent_dead": UsingOption(
        'When a job of `after` dies or is cancelled: "cancel" this one too (reviving that one brings it back), "run" '
        'it all the same, or let it "wait" until that one is revived.',
        '"cancel"',
        'after=["job_1"], on_parent_dead="run"',
    ),
    "tags": UsingOption("Find it by these words: `horae job list --where tag:spring`.", "none", 'tags=["spring"]'),
    "trace_id": UsingOption(
        "Link it to this trace.", "the trace that is under way", 'trace_id="4bf92f3577b34da6a3ce929d0e0e4736"'
    ),
    "strict": UsingOption("Refuse an instant that has passed instead of running it late.", "False", "strict=True"),
    "connection": UsingOption(
        "Store it in the transaction of this connection or session; it runs when that commits.",
        "a transaction of its own",
        "connection=session.connection()",
    ),
    "debounce": UsingOption(
        "Run only the last of many calls, when none has come for this long; `Debounce(wait, max_wait=…, key=…)` says "
        "how long at most, and for which key.",
        OF_DEFINITION,
        'debounce="30s"',
    ),
    "collect": UsingOption(
        "Run many calls as one job, their lists joined, when *n* have come or the first has waited *within*.",
        OF_DEFINITION,
        'collect=Collect(n=100, within="5s")',
    ),
    "expect": UsingOption(
        'Expect that it has succeeded "within 10m" of being due, "by 06:00" (UTC, or "by 06:00 Europe/Berlin"), or by '
        'an instant, "by 2030-01-07T06:00:00Z"; when it has not, that is recorded and alerted. "none" expects nothing.',
        "as declared, else nothing",
        'expect="within 10m"',
    ),
    "shard_key": UsingOption(
        "Keep it in the shard of this text, where the house has several databases; its other keys are unique within "
        "it. A job with two kinds of key needs it there. On a single database it changes nothing.",
        "its one key decides, or chance",
        'key="receipt:42", shard_key="customer-7"',
    ),
}


def using_text() -> str:
    """Return the options as a docstring lists them."""
    lines = [
        f"* ``{name}``: {option.text.replace('`', '``')} Default: {option.default}." for name, option in USING.items()
    ]
    return "\n".join(["", *lines])
