"""One verb done to many jobs, and the options about why it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.failures import Exit, as_json, exit_code
from horae.cli.terminal import Terminal
from horae.errors import HoraeError, InvalidInput, ServiceUnavailable, StoreError

if TYPE_CHECKING:
    from horae.api.jobs.room import Job
    from horae.cli.verbs import Verbs

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it; without, a bulk act only counts (exit code 7).")]
PAGE = 1000


@dataclass
class Bulk:
    """One verb, done to named jobs or to all that match, one after the other; a refusal does not stop the rest."""

    terminal: Terminal
    here: Verbs
    verb: str
    act: Callable[[Verbs, str], Job]
    done: list[dict[str, Any]] = field(default_factory=list)
    worst: Exit = Exit.OK

    def named(self, job_ids: list[str]) -> None:
        """Act on the jobs given; a single one fails like any other command."""
        if len(job_ids) == 1:
            job = self.act(self.here, job_ids[0])
            self.done.append({"id": job.id, "ok": True, "job": to_json(job)})
        else:
            for job_id in job_ids:
                self._act_on(job_id)
        self._print_results()

    def matching(self, filters: Mapping[str, Any], *, really: bool) -> None:
        """Act on all that match now; count them only, unless *really*."""
        job_ids = [job.id for job in self.here.jobs.list(**filters)]
        if not really:
            number = words.count(len(job_ids), "job")
            document = {"dry_run": True, "verb": self.verb, "count": len(job_ids), "ids": job_ids[:PAGE]}
            self.terminal.result(document, f"would {self.verb} {number}" + ("; add --yes" if job_ids else ""))
            if job_ids:
                raise typer.Exit(Exit.UNCONFIRMED)  # or a script would take it for done
            return
        for job_id in job_ids:
            self._act_on(job_id)
        self._print_results()

    def _act_on(self, job_id: str) -> None:
        try:
            job = self.act(self.here, job_id)
            self.done.append({"id": job.id, "ok": True, "job": to_json(job)})
        except (StoreError, ServiceUnavailable):
            raise
        except HoraeError as problem:
            self.worst = self.worst or exit_code(problem)
            self.done.append({"id": job_id, "ok": False, "error": as_json(problem)})

    def _print_results(self) -> None:
        lines = [
            f"{each['id']}: {each['job']['state'] if each['ok'] else each['error']['message']}" for each in self.done
        ]
        good = sum(each["ok"] for each in self.done)
        if len(self.done) != 1:
            lines.append(f"{self.verb}: {good} of {words.count(len(self.done), 'job')}")
        self.terminal.result({"verb": self.verb, "results": self.done}, "\n".join(lines))
        if self.worst:
            raise typer.Exit(self.worst)


def require_one_choice(job_ids: list[str] | None, bulk: bool, flag: str) -> None:
    """Refuse a call that names both jobs and all of a kind, or neither."""
    if job_ids and bulk:
        raise InvalidInput("jobs_named_twice", flag=flag)
    if not job_ids and not bulk:
        raise InvalidInput("jobs_unnamed", flag=flag)
