"""The sentences of errors about the HTTP service, its callers and its client, by reason."""

ERRORS = {
    "dialect_job_id_unreadable": "{id!r} is not a job id; ids look like job_12.",
    "doctor_not_offered": "This process does not examine the installation. Set HORAE_SERVER_DOCTOR=1, or run "
    "`horae doctor` on its machine.",
    "settings_not_offered": "This process does not show its settings. Ask a server started with `horae server`, or run "
    "`horae config show --origin` on its machine.",
    "client_extra_missing": "The client needs {module!r}, which is not installed. Run: pip install 'horae[client]'",
    "form_not_from_here": "This form is not from the page that you see now, or that page is too old. Go back, load "
    "it again and repeat.",
    "form_unreadable": "The form cannot be read. Go back, load the page again and repeat.",
    "body_not_json_type": "Send JSON, with the header Content-Type: application/json.",
    "input_missing": "{where} is missing. Send it.",
    "input_not_a_choice": "{where} must be {choices}.",
    "input_not_above": "{where} must be more than {bound}.",
    "input_not_below": "{where} must be less than {bound}.",
    "input_not_boolean": "{where} must be true or false.",
    "input_not_in_form": "{where} must match {form}.",
    "input_not_json": "{where} is not JSON: {problem} (character {position}).",
    "input_not_list": "{where} must be a list.",
    "input_not_number": "{where} must be a number.",
    "input_not_object": "{where} must be an object.",
    "input_not_one_line": "{where} must be printable characters on one line.",
    "input_not_text": "{where} must be text.",
    "input_not_whole": "{where} must be a whole number.",
    "input_refused": "{where} does not fit: {problem}.",
    "input_too_few": "{where} needs at least {least} entries.",
    "input_too_large": "{where} may be at most {most}.",
    "input_too_long": "{where} may have at most {most} characters.",
    "input_too_many": "{where} may have at most {most} entries.",
    "input_too_short": "{where} needs at least {least} characters.",
    "input_too_small": "{where} must be at least {least}.",
    "input_unknown": "{where} is not known here; /openapi.json lists what there is.",
    "idempotency_keys_differ": "The header Idempotency-Key and the field {field} differ; send one of them.",
    "if_match_unreadable": 'If-Match must repeat an ETag as it was given, name a version such as "3", or be *.',
    "jwt_claim_missing": "The JWT has no claim {claim}, which is needed here.",
    "jwt_expired": "The JWT has expired; log in again.",
    "jwt_invalid": "The JWT is not valid: its signature, issuer or audience is not what this service expects.",
    "jwt_keys_unavailable": "The keys for JWTs are not available at the moment; repeat in a minute.",
    "jwt_keys_url_unsafe": "HORAE_JWT_JWKS_URL must begin with https://, or with http:// where it names this machine "
    "(http://127.0.0.1/…): keys that are changed on their way sign for every user.",
    "jwt_not_yet_valid": "The JWT is not valid yet; compare the clocks of both machines.",
    "jwt_secret_and_keys": "HORAE_JWT_SECRET and HORAE_JWT_JWKS_URL exclude each other; set one of them.",
    "jwt_secret_too_short": "HORAE_JWT_SECRET is shorter than {least} bytes, so it can be guessed. Make one with: "
    "openssl rand -hex 32",
    "jwt_setting_missing": "{setting} is not set: without it, a JWT that was made for another service is accepted here."
    " Set HORAE_JWT_ISSUER to the iss and HORAE_JWT_AUDIENCE to the aud of the tokens that are meant for Horae.",
    "jwt_times_unreadable": "The exp and nbf of the JWT must be numbers of seconds.",
    "jwt_user_unreadable": "The sub of the JWT cannot be used: {problem}",
    "jwt_without_user": "The JWT names no user who could have tasks here; its sub must be a user's id.",
    "last_event_id_unreadable": "Last-Event-ID must repeat the id of an event as it was given, for example 12.",
    "metrics_for_operator_only": "These metrics are of all tenants together. Use an operator's token.",
    "metrics_port_taken": "Metrics cannot be served at {host}:{port}: {problem}. Choose another --metrics-port.",
    "open_service_exposed": "Without authentication the service listens only on this machine, and {host} is open to "
    "others. Leave out --no-auth and make tokens (horae token create), or listen on 127.0.0.1.",
    "request_not_json": "This cannot be sent as JSON: {problem}. Give plain values: text, numbers, lists and objects.",
    "page_unknown": "There is no such page in the console. Choose one from the menu.",
    "service_answer_unreadable": "The service answered {problem}. Check that the URL is that of a Horae service, of a "
    "release that this client knows.",
    "service_broke_off": "The service at {url} broke off the connection ({problem}). Check that it runs and that the "
    "URL is right.",
    "service_broke_off_outcome_unknown": "The service at {url} broke off the connection ({problem}). Whether the "
    "request was carried out is unknown; look before you repeat it.",
    "service_connect_timeout": "The service at {url} did not accept the connection within {seconds:g} s. Check that it "
    "runs and that the URL is right.",
    "service_only": "{method} {path} is answered by a service only; ask one with horae.Client.",
    "service_silent": "The service at {url} did not answer within {seconds:g} s. Check that it runs and that the URL is"
    " right.",
    "service_silent_outcome_unknown": "The service at {url} did not answer within {seconds:g} s. Whether the request "
    "was carried out is unknown; look before you repeat it.",
    "service_token_unreadable": "The token holds characters that no token has. Copy the token alone.",
    "service_status_unexpected": "The service answered {status} ({phrase}) to {request}.",
    "service_unreachable": "The service at {url} cannot be reached ({problem}). Check that it runs and that the URL is "
    "right.",
    "service_url_has_credentials": "The URL of a service holds no user or password; give the token as token=….",
    "service_url_unreadable": "{url!r} is not the URL of a service; write for example http://127.0.0.1:8765.",
    "store_not_opened": "The store cannot be opened: {problem}. Check its URL and state.",
    "store_not_opened_yet": "The store has not answered yet; repeat in a few seconds.",
    "too_many_from_address": "Too many requests from this address. Repeat after the time that Retry-After names.",
    "too_many_waiting": "Too many callers are waiting here already. Ask without waiting.",
    "too_many_with_token": "Too many requests with this token. Repeat after the time that Retry-After names.",
    "too_many_wrong_tokens": "Too many wrong tokens from this address. Repeat after the time that Retry-After names.",
}

# The details of problem documents that the service makes without an error of the library, by its own reasons.
PROBLEMS = {
    "body_encoded": "Send the body as it is, without Content-Encoding.",
    "body_too_large": "The body is longer than {most:,} bytes. Store the data elsewhere and send a reference to it.",
    "body_too_slow": "The body did not arrive in time.",
    "failed_here": "Something went wrong here, not with your request. It is in the log as request {request_id}.",
    "host_unknown_here": "This service is not known under that name. Use the URL it printed.",
    "methods_known": "This address knows only {methods}.",
    "nothing_at_address": "There is nothing at this address. {root}/openapi.json lists what there is.",
    "nul_in_address": "The address contains a NUL character. Remove it.",
    "page_of_other_site": "A page of another site may not change anything here.",
    "schema_missing": "The store's tables are not up to date. The operator must run: horae db migrate",
    "schema_too_new": "The store was migrated by a newer Horae than this service. The operator must upgrade it.",
    "store_busy": "The store is busy with another transaction. Nothing was changed; repeat in a moment.",
    "store_down": "The store does not answer at the moment. Nothing was changed; repeat in a few seconds.",
    "store_full": "The store has no room left. Nothing was changed; the operator must free some space.",
    "store_outcome_unknown": "The store broke off before it answered, so whether this was done is unknown. Look, or "
    "repeat it with the same Idempotency-Key.",
}
