"""Users' own scheduled tasks (document 001)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any, Unpack

from horae.actions import scheduled_tasks as verbs
from horae.api.here import Here
from horae.api.jobs.room import Reason
from horae.api.operation import DELETE, GET, PAGES, POST, PUT, Call, Listing, Page, Room, S
from horae.api.scheduled_tasks.values import (
    ScheduledTask,
    ScheduledTaskRun,
    TaskLimits,
    TaskPreview,
    TaskReasons,
    TaskTerms,
    TriggeredTask,
    preview_of,
    run_of,
    task_of,
    terms_of,
    wish_from,
)
from horae.api.values import Free, drop_none, free, to_json, to_public
from horae.core.cursors import cursor_from, read_cursor
from horae.core.scheduled_tasks.task import Terms, Wish
from horae.core.schedules.status import schedule_status
from horae.core.time.instants import micros
from horae.errors import InvalidInput
from horae.words.languages import Language

USER = ("tasks",)


class ScheduledTasks(Room[S]):
    """Users' own tasks; needs the scope ``tasks``, and a user sees only their own. *lang* is en or zh, for words."""

    @PAGES("/scheduled-tasks", *USER, by_queue=True)
    def list(
        self, *, user_id: str | None = None, lang: Language = "en", limit: int | None = None
    ) -> Listing[ScheduledTask]:
        """List your tasks, the last changed first; an operator sees all users', or those of *user_id*."""
        query = drop_none(user_id=user_id, lang=_check_language(lang))
        first = Call[Page[ScheduledTask]](Page[ScheduledTask], query=query)
        by = attrgetter("user_id", "updated_at", "id")  # every stored task was changed once
        return Listing(first, limit, lambda here, *at: _find(here, user_id, lang, *at), order=by)

    @POST("/scheduled-tasks", *USER, by_queue=True)
    def create(
        self, *, key: str | None = None, reason: str = "", lang: Language = "en", **terms: Unpack[TaskTerms]
    ) -> Call[ScheduledTask]:
        """Make a task; ``schedule_type`` is cron (the default), interval or once.

        The same *key* with the same terms gives the task that is there; with other terms it is a KeyConflict. Over
        HTTP each call has a key of its own, so that a repeated try makes no second task.
        """
        wish = wish_from(terms)

        def make(here: Here) -> Any:
            who = {"owner": here.owner, "actor": here.actor, "reason": reason}
            saved = verbs.create(here.world, wish, terms=_terms(here), key=key, **who)
            return task_of(saved.facts, lang, saved.warnings, deduplicated=not saved.is_new)

        query = drop_none(reason=reason or None, lang=_check_language(lang))
        return Call(ScheduledTask, make, query=query, body=_terms_body(wish), creates=True, key=key)

    @GET("/scheduled-tasks/limits", *USER, by_queue=True)
    def limits(self) -> Call[TaskLimits]:
        """Return how many of your tasks are enabled and may be, and what a task may run."""

        def fetch(here: Here) -> Any:
            terms = _terms(here)
            quota = verbs.quota(here.world, owner=here.owner, terms=terms)
            return TaskLimits(
                enabled=quota.enabled,
                max_enabled=quota.allowed,
                shortest_interval=terms.shortest,
                handler=terms.handler,
                handlers=tuple(terms.handlers),
            )

        return Call(TaskLimits, fetch)

    @GET("/scheduled-tasks/{task_id}", *USER, by_queue=True)
    def get(self, task_id: str, *, lang: Language = "en") -> Call[ScheduledTask]:
        """Return one task, with its next and last run, lock and reason for not running."""

        def fetch(here: Here) -> Any:
            return task_of(verbs.get(here.world, task_id, **here.reach), lang)

        return Call(ScheduledTask, fetch, at={"task_id": task_id}, query=drop_none(lang=_check_language(lang)))

    @PUT("/scheduled-tasks/{task_id}", *USER, by_queue=True)
    def change(
        self,
        task_id: str,
        *,
        version: int | Collection[int] | None = None,
        reason: str = "",
        lang: Language = "en",
        **terms: Unpack[TaskTerms],
    ) -> Call[ScheduledTask]:
        """Change what is named and keep the rest. With *version*, only if it is still that one; else VersionConflict.

        A running attempt is left alone; a lock that has run out is released.
        """
        wish, versions = wish_from(terms), _versions(version)

        def act(here: Here) -> Any:
            who: Any = {"owner": here.caller.sees, "actor": here.actor, "reason": reason}
            saved = verbs.change(here.world, task_id, wish, terms=_terms(here), versions=versions, **who)
            return task_of(saved.facts, lang, saved.warnings)

        query, body = drop_none(reason=reason or None, lang=_check_language(lang)), _terms_body(wish)
        return Call(ScheduledTask, act, at={"task_id": task_id}, query=query, body=body, headers=_if_match(versions))

    @DELETE("/scheduled-tasks/{task_id}", *USER, by_queue=True)
    def delete(self, task_id: str, *, version: int | Collection[int] | None = None, reason: str = "") -> Call[None]:
        """Delete a task and its runs; an attempt under way goes on to its end."""
        versions = _versions(version)

        def act(here: Here) -> None:
            verbs.delete(here.world, task_id, versions=versions, actor=here.actor, reason=reason, **here.reach)

        query = drop_none(reason=reason or None)
        return Call(None, act, at={"task_id": task_id}, query=query, headers=_if_match(versions))

    @PAGES("/scheduled-tasks/{task_id}/runs", *USER, by_queue=True)
    def runs(self, task_id: str, *, limit: int | None = None) -> Listing[ScheduledTaskRun]:
        """List what a task ran, the newest first, an attempt under way among them."""
        first = Call[Page[ScheduledTaskRun]](Page[ScheduledTaskRun], at={"task_id": task_id}, is_scattered=True)
        return Listing(first, limit, lambda here, *at: _runs(here, task_id, *at), order=_begun, drained=True)

    @POST("/scheduled-tasks/{task_id}/trigger", *USER, by_queue=True)
    def trigger(
        self, task_id: str, payload: Mapping[str, Any] | None = None, *, reason: str = ""
    ) -> Call[TriggeredTask]:
        """Run a task once, now, enabled or not; *payload* wins over its own, this once."""

        def act(here: Here) -> Any:
            who: Any = {"actor": here.actor, "reason": reason, **here.reach}
            done, warnings = verbs.trigger(here.world, task_id, payload, **who)
            at, texts = done.fire.fire_at, tuple(each.text for each in warnings)
            return TriggeredTask(task_id=task_id, job_id=done.job_id, triggered_at=at, warnings=texts)

        return Call(
            TriggeredTask, act, at={"task_id": task_id}, body=drop_none(payload=free(payload), reason=reason or None)
        )

    @GET("/scheduled-tasks/{task_id}/preview", *USER, by_queue=True)
    def preview(self, task_id: str, *, count: int = 5, lang: Language = "en") -> Call[TaskPreview]:
        """Return when a task will run, in UTC and in its zone, and what each change of clocks does to it."""

        def fetch(here: Here) -> Any:
            seen = verbs.preview(here.world, task_id, count=count, **here.reach)
            return preview_of(seen, lang, here.world.clock.now())

        return Call(
            TaskPreview, fetch, at={"task_id": task_id}, query=drop_none(count=count, lang=_check_language(lang))
        )

    @POST("/scheduled-tasks/preview", *USER, by_queue=True)
    def preview_new(
        self, *, count: int = 5, lang: Language = "en", **terms: Unpack[TaskTerms]
    ) -> Call[TaskPreview]:  # fmt: skip
        """Return when a task with these terms would run; nothing is stored."""
        wish = wish_from(terms)

        def fetch(here: Here) -> Any:
            seen = verbs.consider(here.world, wish, owner=here.owner, terms=_terms(here), count=count)
            return preview_of(seen, lang, here.world.clock.now())

        query = drop_none(count=count, lang=_check_language(lang))
        return Call(TaskPreview, fetch, query=query, body=_terms_body(wish), repeats=True)

    @GET("/scheduled-tasks/{task_id}/why", *USER, by_queue=True)
    def why(self, task_id: str) -> Call[TaskReasons]:
        """Return the reasons why a task does or does not run."""

        def fetch(here: Here) -> Any:
            facts, found = verbs.why(here.world, task_id, **here.reach)
            return TaskReasons(
                id=facts.schedule.key,
                status=schedule_status(facts.schedule),
                next_run_at=facts.next_run_at,
                reasons=to_public(tuple[Reason, ...], found),
            )

        return Call(TaskReasons, fetch, at={"task_id": task_id})

    @POST("/scheduled-tasks/{task_id}/release", *USER, by_queue=True)
    def release(self, task_id: str, *, reason: str = "", lang: Language = "en") -> Call[ScheduledTask]:
        """Take a running task from its worker; it runs again at once, and what that worker says no longer counts."""

        def act(here: Here) -> Any:
            freed = verbs.release(here.world, task_id, actor=here.actor, reason=reason, **here.reach)
            return task_of(freed, lang)

        body = drop_none(reason=reason or None)
        return Call(ScheduledTask, act, at={"task_id": task_id}, query=drop_none(lang=_check_language(lang)), body=body)


# -- the parts ---------------------------------------------------------------------------------------------------------


def _terms_body(wish: Wish) -> dict[str, Any]:
    return {name: Free(value) if name == "payload" else to_json(value) for name, value in terms_of(wish).items()}


def _find(
    here: Here, user_id: str | None, lang: Language, cursor: str | None, limit: int
) -> tuple[list[ScheduledTask], str | None]:
    begin = read_cursor(cursor, str, int, int)
    after = None if begin is None else (begin[0], begin[1], begin[2])
    owned_by, queues = here.caller.filter_owner(user_id), here.caller.queues
    found = verbs.find(here.world, owner=owned_by, queues=queues, limit=limit, after=after)
    last = found[-1].schedule if len(found) == limit else None
    more = None
    if last is not None and last.updated_at is not None:
        more = cursor_from([last.owner, micros(last.updated_at), last.number])
    return [task_of(each, lang) for each in found], more


def _runs(here: Here, task_id: str, cursor: str | None, limit: int) -> tuple[list[ScheduledTaskRun], str | None]:
    begin = read_cursor(cursor, int, int)
    before = None if begin is None else (begin[0], begin[1])
    found = verbs.runs(
        here.world, task_id, limit=limit, before=before, everywhere=here.everywhere, **here.reach
    )  # fmt: skip
    last = found[-1].run if len(found) == limit else None
    more = None if last is None else cursor_from([last.job_number, last.token])
    return [run_of(task_id, each) for each in found], more


def _begun(run: ScheduledTaskRun) -> tuple[bool, datetime | None, str]:
    """Return by what runs of several databases are merged, the newest first."""
    return run.started_at is not None, run.started_at, run.id


def _terms(here: Here) -> Terms:
    """Return the operator's terms, limited to the queues of the caller."""
    return replace(here.terms(), only_queues=here.caller.queues)


def _check_language(lang: Language) -> Language:
    if lang not in ("en", "zh"):
        raise InvalidInput("language_unknown", language=lang)
    return lang


def _versions(version: int | Collection[int] | None) -> frozenset[int] | None:
    if version is None:
        return None
    return frozenset([version]) if isinstance(version, int) else frozenset(version)


def _if_match(versions: frozenset[int] | None) -> dict[str, str]:
    return {} if versions is None else {"If-Match": ", ".join(f'"{each}"' for each in sorted(versions))}
