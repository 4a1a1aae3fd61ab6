"""What rests on an object, page by page, on every database."""

from __future__ import annotations

from typing import Any

from horae.core.governance.decisions import Cite, Decision
from horae.core.governance.objects import GovernedObject, Link
from horae.ports.store import Tx
from horae.stores.store import SqlStore
from horae.testing.clock import NOON


def an_object(name: str) -> GovernedObject:
    kinds: Any = {"mem": "memory", "exp": "experience", "cog": "cognition"}
    return GovernedObject(0, "alice", kinds[name[:3]], name, "active", NOON, NOON)


def test_pages_follow_links_upwards_and_end_at_decisions(store: SqlStore) -> None:
    names = ["mem_1", "mem_2", "exp_1", "exp_2", "exp_3", "cog_1", "cog_2", "cog_3"]
    rests = [("exp_1", "mem_1"), ("exp_2", "mem_1"), ("exp_3", "mem_2"), ("cog_1", "exp_1"), ("cog_1", "exp_2"),
             ("cog_2", "mem_1"), ("cog_3", "exp_3")]  # fmt: skip
    outcomes = [("mem_1", "executed"), ("exp_2", "limited"), ("cog_1", "executed"), ("cog_3", "executed"),
                ("cog_2", "abstained")]  # fmt: skip

    def write(tx: Tx) -> dict[str, int]:
        numbers = dict(zip(names, tx.objects.add([an_object(each) for each in names]), strict=True))
        tx.objects.add_links([Link("alice", numbers[upper], numbers[lower], NOON) for upper, lower in rests])
        for cited, outcome in outcomes:
            made: Any = Decision(0, "alice", f"d_{cited}", "x", "low", outcome, "normal", "r", "supported", NOON, "a")  # type: ignore[arg-type]
            kept = tx.decisions.add(made, [Cite(0, numbers[cited], "alice", 1, "active")])
            numbers[f"d_{cited}"] = kept.number
        return numbers

    numbers = store.transact(write)
    known = {number: name for name, number in numbers.items() if not name.startswith("d_")}

    def page(phase: str, **more: Any) -> list[int]:
        given = {"after": 0, "limit": 100, **more}
        return store.read(lambda tx: getattr(tx.cascades, phase)(numbers["mem_1"], **given))

    assert [known[each] for each in page("experiences")] == ["exp_1", "exp_2"]
    assert [known[each] for each in page("cognitions")] == ["cog_1", "cog_2"]
    assert page("decisions") == [numbers["d_mem_1"], numbers["d_exp_2"], numbers["d_cog_1"]]
    assert [known[each] for each in page("cognitions", after=numbers["cog_1"])] == ["cog_2"]
    assert [known[each] for each in page("experiences", limit=1)] == ["exp_1"]
    assert store.read(lambda tx: tx.cascades.count(numbers["mem_1"])) == 7
