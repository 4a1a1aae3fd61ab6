"""Jobs of Horae's own: they keep what it has promised, the timeouts of waits and confirmations, starts and deadlines,
and work on bulk acts.

They live in one reserved queue, which every worker serves beside its own queues. A person's verbs are refused there,
because a wait without its timeout would stay open for ever.
What runs for people, a schedule that hands a task to an agent for example, is in their queues as any other job.
"""

from __future__ import annotations

from datetime import timedelta

from horae.core.jobs.job import Job
from horae.core.jobs.payloads import label, name
from horae.core.jobs.retry import Retry
from horae.errors import InvalidName, ReservedQueue

MACHINERY = "horae"
BEFORE = "attention"  # where these jobs were kept by versions before the queue was reserved
TIMEOUT, START, DEADLINE = "attention.timeout", "attention.start", "attention.deadline"
REVIEW = "governance.review"  # the deadline of a review
ROLLBACK = "governance.rollback"  # one batch of a rollback; the job is put off until the next
GATE = "governance.gate"  # asks again about jobs that a gate has put back, once it has changed
ASK = "governance.ask"  # puts a question about an object into the lane of an agent, or takes it back
LET_IN = "governance.let_in"  # lets objects come due for which a budget has room again
THINKING = "verify:"  # prefix of the keys of tasks in which an agent thinks about an object
PAUSE = "pause.end"  # lets a schedule or a queue go on whose pause has an end
QUIET = "queue.quiet"  # pauses and resumes a queue by its quiet hours; the job is put off until the next boundary
EXPECT = "schedule.expect"  # looks whether what is expected has succeeded; the job is put off until the next deadline
ACT = "acts.batch"  # one batch of a bulk act; the job is put off until the next
HANDLERS = (TIMEOUT, START, DEADLINE)
OWN_NAMES = "horae:"  # prefix of the unique names of these jobs, reserved for them
PERSISTENT = Retry(attempts=50, delay=timedelta(seconds=5))  # how these jobs are tried again
SERVED_AT_ONCE = 20  # small, because every worker serves them, and each is a short transaction


def queue_name(text: str) -> str:
    """Return a valid queue name; refuse the reserved one."""
    if text == MACHINERY:
        raise ReservedQueue("queue_reserved", queue=MACHINERY)
    return name(text, "queue")


def unique_name(text: str) -> str:
    """Return a valid unique name; refuse a reserved one, which would keep a wait from getting its timeout."""
    if isinstance(text, str) and text.startswith(OWN_NAMES):
        raise InvalidName("unique_name_reserved", name=text, prefix=OWN_NAMES)
    return label(text, "unique name")


def refuse_own(job: Job) -> None:
    """Refuse a person's verb on a job of Horae's own, with what to do instead."""
    if job.queue != MACHINERY:
        return
    payload = job.payload if isinstance(job.payload, dict) else {}
    if job.handler == ACT:
        kept = f"act_{payload.get('act')} going"
        advice = f"pause or cancel that act: horae act cancel act_{payload.get('act')}"
    elif job.handler == REVIEW:
        kept = f"the deadline of review {payload.get('review')}"
        advice = f"answer that review: horae review answer {payload.get('review')} …"
    elif job.handler == ROLLBACK:
        kept = f"rollback {payload.get('rollback')} going"
        advice = "let it finish; it is not to be stopped half way"
    elif job.handler == GATE:
        kept = "the jobs that a gate has put back going"
        advice = "let it run; it takes a moment"
    elif job.handler in (ASK, LET_IN):
        kept = "the verification of an object going"
        advice = "let it run; it takes a moment"
    elif job.handler == PAUSE:
        kept = f"the end of the pause of {payload.get('what')} {payload.get('name')}"
        advice = f"resume it: horae {payload.get('what')} resume {payload.get('name')}"
    elif job.handler == EXPECT:
        kept = f"an eye on what is expected of {payload.get('job') or 'schedule ' + str(payload.get('schedule'))}"
        advice = f"expect nothing of it: horae schedule change {payload.get('schedule')} --expect none"
        if "job" in payload:
            advice = f"cancel that job: horae job cancel {payload.get('job')}"
    elif job.handler == QUIET:
        what = "owner" if "owner" in payload else "queue"
        kept = f"the quiet hours of {what} {payload.get(what)}"
        advice = f"lift them: horae {what} quiet {payload.get(what)} none"
    elif job.handler == TIMEOUT:
        kept = f"the timeout of wait {payload.get('wait')}"
        advice = "post what that waits for, or cancel the task that waits (horae attention …)"
    else:
        kept = f"the {'start' if job.handler == START else 'deadline'} of task t{payload.get('task')}"
        advice = "cancel that task (horae attention …)"
    raise ReservedQueue("job_reserved", id=job.id, kept=kept, advice=advice)
