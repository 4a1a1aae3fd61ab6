"""The sentences of errors about secrets, by reason."""

ERRORS = {
    "overlap_too_long": "A secret that was replaced may stay valid for up to {most_days} days.",
    "reference_unreadable": 'A reference is {{"{key}": "name"}} and holds nothing else.',
    "secret_length_outside": "A secret is a text of {least} to {most:,} characters.",
    "secret_name_unreadable": "A secret's name has 1 to 100 letters, digits and any of _ . -, begins with a letter or"
    " digit, and is not the secret itself.",
    "secret_not_generated": "The secret {name!r} is a text of yours, not a signing secret that can be made here; put "
    "the new text.",
    "secret_not_plain": "A secret is text without NUL, lone surrogates, or space at either end.",
    "secret_unknown": "There is no secret {name!r}; GET /secrets lists those there are.",
    "too_many_references": "A message may refer to {most} secrets, not {count}.",
    "too_many_secrets": "There are {allowed} secrets already; delete one that is not needed.",
}
