"""All Chinese tables together; imported when the first Chinese sentence is asked for."""

from horae.words.chinese import (
    access,
    attention,
    audit,
    cli,
    common,
    declarations,
    jobs,
    mcp,
    outgoing,
    runtime,
    scheduled_tasks,
    schedules,
    secrets,
    service,
    settings,
    statistics,
    statuses,
    stores,
)

ROOMS = {
    "common": common.ERRORS,
    "jobs": jobs.ERRORS,
    "schedules": schedules.ERRORS,
    "scheduled_tasks": scheduled_tasks.ERRORS,
    "attention": attention.ERRORS,
    "access": access.ERRORS,
    "audit": audit.ERRORS,
    "secrets": secrets.ERRORS,
    "statistics": statistics.ERRORS,
    "outgoing": outgoing.ERRORS,
    "service": service.ERRORS,
    "stores": stores.ERRORS,
    "mcp": mcp.ERRORS,
    "declarations": declarations.ERRORS,
    "runtime": runtime.ERRORS,
    "settings": settings.ERRORS,
    "command_line": cli.ERRORS,
}
REASONS = {
    "jobs": jobs.WHY,
    "schedules": schedules.WHY,
    "scheduled_tasks": scheduled_tasks.WHY,
    "attention": attention.WHY,
    "audit": audit.WHY,
}
ERRORS = {reason: text for table in ROOMS.values() for reason, text in table.items()}
WHY = {reason: text for table in REASONS.values() for reason, text in table.items()}
VERBS, PROBLEMS, TITLES, TERMS = audit.VERBS, service.PROBLEMS, statuses.TITLES, statuses.TERMS
