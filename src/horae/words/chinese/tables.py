"""All Chinese tables together; imported when the first Chinese sentence is asked for."""

from importlib import import_module

from horae.words import sentences
from horae.words.chinese import audit, service, settings, statuses

_CHINESE = {
    room: import_module(f"{__package__}.{module.__name__.rpartition('.')[2]}")
    for room, module in sentences.MODULES.items()
}
ROOMS = {room: module.ERRORS for room, module in _CHINESE.items()}
REASONS = {room: _CHINESE[room].WHY for room in sentences.REASONS}
ERRORS = {reason: text for table in ROOMS.values() for reason, text in table.items()}
WHY = {reason: text for table in REASONS.values() for reason, text in table.items()}
VERBS, PROBLEMS, TITLES, TERMS = audit.VERBS, service.PROBLEMS, statuses.TITLES, statuses.TERMS
HELPS = settings.HELPS
