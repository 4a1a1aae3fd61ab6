"""The sentences of errors about values that occur in several rooms, by reason."""

ERRORS = {
    "already_ended": "A {thing} that is {state} cannot be {event}: it has ended.",
    "choice_unknown": "{name}={value!r} is not known; choose one of {choices}.",
    "clock_backwards": "The clock shows {now} and cannot go back to {instant}.",
    "cursor_invalid": "Invalid cursor. Pass `next_cursor` from the previous page unchanged.",
    "instant_unreadable": "{name} {text!r} is not an ISO-8601 time; write for example 2030-01-07T06:00:00Z.",
    "key_not_text": "The {what} has the key {key}, which is not text, and JSON knows no other keys. Write it as a "
    'string, for example "{text}".',
    "label_unreadable": "{value} cannot be a {what}: use 1 to {most} printable characters, without line breaks and "
    "without space at either end.",
    "language_unknown": "There are no words in language {language!r}; choose 'en' or 'zh'.",
    "lone_surrogate": "The {what} contains a lone surrogate, which is not text. Decode the bytes it came from "
    "properly first.",
    "name_unreadable": "{value} cannot name a {what}: use up to {most} letters, digits and any of _ . : / @ -, "
    "beginning with a letter or digit.",
    "no_time_left": "{name}={value:span} leaves no time at all; give more than zero, or None for no limit.",
    "not_boolean": "{name} is True or False, not {value}.",
    "not_json": "The {what} is not plain JSON: {problem}. Send only dict, list, str, int, finite float, bool and None.",
    "nul_character": "The {what} contains a NUL character, which databases cannot store as text. Remove it.",
    "offset_missing": "{text!r} has no time zone; write {without_zone}Z for UTC, or an offset such as "
    "{without_zone}+08:00.",
    "not_a_whole_number": "{name}={value!r} is not a whole number. Write digits alone, or leave it empty.",
    "out_of_range": "{name} {value} is outside {least:,} to {most:,}.",
    "outside_calendar": "{name} {value} lies outside the calendar in UTC; give a time between the years 1 and 9999.",
    "parameter_unknown": "This call has no parameter {name!r}; /openapi.json lists those it takes.",
    "span_too_long": "{name}={value:span} is too long to be kept; {most_days:,} days fit.",
    "span_unreadable": "{value} is not a number of seconds, a timedelta or text such as 5m.",
    "text_not_storable": "{name} contains a NUL or half a character, which cannot be stored as text. Remove it.",
    "text_too_long": "{name} has {length:,} characters; at most {most:,} are kept. Shorten it.",
    "too_deep": "The {what} is nested deeper than {most} levels. Flatten it, or send it as a string.",
    "too_large": "The {what} has {size:,} bytes; at most {most:,} are accepted. Store the data elsewhere and send a "
    "reference to it.",
    "transition_refused": "A {thing} that is {state} cannot be {event}. From {state} it can be: {possible}.",
    "type_wrong": "{name}={value} is not {expected}.",
    "zone_missing": "{name} {value} has no time zone. Give an aware datetime, for example datetime(2030, 1, 7, 6, "
    "tzinfo=UTC).",
    "zone_unknown": "There is no time zone {name!r}. Use an IANA name such as Europe/Berlin, Asia/Shanghai or UTC; if"
    " the name is right, update the tzdata package.",
}
