"""The sentences of errors about outgoing calls, webhooks and dispatch, by reason."""

ERRORS = {
    "address_not_public": "{problem}; outgoing calls go to public addresses. An operator can add its network to the "
    "allow-list.",
    "address_unreadable": "{text!r} is not an IP address in its plain form, such as 192.0.2.7 or 2001:db8::7.",
    "dispatch_choice_unreadable": "{name} must be text of at most {most} characters; leave it out for the default.",
    "dispatch_context_unreadable": "The context must be an object, not {given}; for example {{}}.",
    "dispatch_text_missing": "The payload needs a text (or input) that says what to do.",
    "host_unreadable": "{text!r} is not a host name. Use letters, digits, hyphens and dots; write other scripts as "
    "xn--…",
    "network_has_host_bits": "{text!r} has bits set behind its prefix; write the first address of the network.",
    "network_too_wide": "{network} is too wide for an allow-list; name the networks that are really meant.",
    "network_unreadable": "{text!r} is not a network; write for example 10.0.0.0/8 or fd00::/8.",
    "orchestrator_answer_empty": "The orchestrator answered with an empty object; nothing was done. Look at its logs.",
    "orchestrator_answer_no_json": "The orchestrator's answer is not plain JSON; is this really its address?",
    "orchestrator_answer_no_object": "The orchestrator's answer is not an object; is this really its address?",
    "orchestrator_failed": "The orchestrator reported: {error}",
    "orchestrator_silent": "The orchestrator answered with nothing; look at its logs.",
    "port_outside": "There is no port {port}; ports are 1 to 65535.",
    "port_refused": "{target}: port {port} may not be called; allowed: {allowed}.",
    "scheme_refused": "{target}: only {allowed} may be called.",
    "signature_headers_missing": "The message needs the headers {headers}, each well formed.",
    "signature_time_outside": "The {header} of the message is outside the calendar; resend it.",
    "signature_too_old": "The message was signed more than {tolerance:span} from now; check both clocks, or resend.",
    "signature_wrong": "No signature of the message fits: it was changed, or signed with another secret.",
    "signing_secret_length_outside": "A webhook secret has {least} to {most} random bytes, not {length}.",
    "signing_secret_unreadable": "A webhook secret is whsec_ followed by base64; this one is not.",
    "url_characters_refused": "The URL holds characters that are not plain in a URL; percent-encode them.",
    "url_has_credentials": "The URL holds a user or password; they would be stored and shown. Leave them out.",
    "url_too_long": "A URL is a text of at most {most:,} characters.",
    "url_unreadable": "The URL must be https://host/path, or http:// where that is allowed, without a fragment.",
    "url_without_host": "The URL names no host, or its port is not a number.",
    "webhook_credentials_in_header": 'Credentials are stored as a secret and named: "Authorization": {{"$secret": '
    '"name"}}.',
    "webhook_credentials_in_payload": 'Credentials are stored as a secret and named: "Authorization": {{"$secret": '
    '"name"}}.',
    "webhook_header_refused": "The header {name!r} may not be set; use names that begin with x-.",
    "webhook_header_value_refused": "The value of the header {name!r} is not one line of at most 1,024 plain "
    "characters.",
    "webhook_headers_unreadable": "The headers of a webhook are an object with at most {most} entries.",
    "webhook_id_unreadable": "{id!r} cannot be a webhook id: use up to 128 letters, digits, _ and -.",
    "webhook_key_unknown": "A webhook has no {key!r}; its payload is {choices}.",
    "webhook_secret_not_named": "A webhook names its secret and never holds it: keep it in the keyring, pass its name.",
    "webhook_url_has_credentials": "The URL of a webhook holds a user or password; keep it as a secret and name that.",
    "webhook_url_missing": "The payload of a webhook needs a url, such as https://example.org/hook.",
}
