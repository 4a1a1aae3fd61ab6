"""Judge an exception of a handler by its type: whether the retry policy of its job rules another attempt out.

Only the process that ran the handler knows the classes. Names are looked up among modules that are loaded already: a
policy comes from data, and data must not import code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from horae.core.jobs.retry import Retry, type_name
from horae.runtime.worker.tracebacks import Reported

TIMED_OUT = TimeoutError()  # what an attempt over its time limit counts as


def is_ruled_out(retry: Retry, problem: BaseException) -> bool:
    """Return whether a job must not be tried again after this exception; a child process has judged its own."""
    if isinstance(problem, Reported):
        return problem.is_final
    if not retry.judges_types:
        return False
    wanted = {*retry.on, *retry.never}
    return retry.rules_out([names_of(each, wanted) for each in _leaves(problem, wanted)])


def names_of(problem: BaseException, wanted: Iterable[str]) -> frozenset[str]:
    """Return the names that an exception goes by: its classes with and without modules, and *wanted* aliases."""
    kinds = type(problem).__mro__
    own = {name for kind in kinds for name in (type_name(kind), kind.__qualname__)}
    return frozenset(own | {alias for alias in wanted if alias not in own and _loaded(alias) in kinds})


def _loaded(name: str) -> object:
    """Return what a dotted name stands for in a module that is loaded; None where there is none."""
    module, _, attribute = name.rpartition(".")
    found = sys.modules.get(module)
    return None if found is None else vars(found).get(attribute)


def _leaves(problem: BaseException, wanted: set[str]) -> Iterator[BaseException]:
    """Return the exceptions of a group, unless the policy names the group itself; else the exception."""
    if not isinstance(problem, BaseExceptionGroup) or not names_of(problem, wanted).isdisjoint(wanted):
        yield problem
        return
    for each in problem.exceptions:
        yield from _leaves(each, wanted)
