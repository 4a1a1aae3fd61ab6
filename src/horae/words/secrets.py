"""The sentences of errors about secrets, by reason."""

ERRORS = {
    "key_file_empty": "{setting}_FILE names {path!r}, which holds no key; make one with: python -c 'import secrets; "
    "print(secrets.token_urlsafe(32))'.",
    "key_file_unreadable": "{setting}_FILE names {path!r}, which cannot be read as text.",
    "key_unreadable": "{setting} holds something that is not {length} bytes in base64 or hex; make one with: python "
    "-c 'import secrets; print(secrets.token_urlsafe(32))'.",
    "overlap_too_long": "A secret that was replaced may stay valid for up to {most_days} days.",
    "reference_unreadable": 'A reference is {{"{key}": "name"}} and holds nothing else.',
    "sealing_key_missing": "The secret {name!r} was sealed with a key that is not configured here. The operator adds "
    "the old key behind the new one: {setting}=new,old; or store the secret again.",
    "secret_changed": "The secret {name!r} was changed in the database, or belongs to another owner. Store it again.",
    "secret_key_missing": "HORAE_SECRET_KEY is not set here; give it the value that the service has.",
    "secret_length_outside": "A secret is a text of {least} to {most:,} characters.",
    "secret_name_unreadable": "A secret's name has 1 to 100 letters, digits and any of _ . -, begins with a letter or"
    " digit, and is not the secret itself.",
    "secret_not_generated": "The secret {name!r} is a text of yours, not a signing secret that can be made here; put "
    "the new text.",
    "secret_not_plain": "A secret is text without NUL, lone surrogates, or space at either end.",
    "secret_unknown": "There is no secret {name!r}; GET /secrets lists those there are.",
    "secrets_extra_missing": "Secrets need {module!r}, which is not installed. Run: pip install 'horae[server]'",
    "secrets_without_key": "Secrets cannot be kept here yet. The operator sets HORAE_SECRET_KEY (or "
    "HORAE_SECRET_KEY_FILE) for the service and its workers, and starts them again. Make a key with: python -c 'import"
    " secrets; print(secrets.token_urlsafe(32))'.",
    "too_many_references": "A message may refer to {most} secrets, not {count}.",
    "too_many_secrets": "There are {allowed} secrets already; delete one that is not needed.",
    "worker_without_secret_key": "This worker cannot open secrets: give it the HORAE_SECRET_KEY of the service, and "
    "start it again.",
}
