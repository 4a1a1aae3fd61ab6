"""The sentences of errors about settings and the machine, by reason."""

ERRORS = {
    "duration_unreadable": "{text!r} is not a {what}; write for example 250ms, 90s, 5m, 2h or 1d.",
    "host_not_ours": "{host!r} is not an address of this machine; 127.0.0.1 is always one.",
    "jobs_file_missing": "There is no file {path!r}; correct --config or HORAE_JOBS_CONF, or make it.",
    "locks_unknown": "locks = {value} is not known; choose 'database', 'memory', a URL such as redis://localhost, or "
    "give a lock manager of your own.",
    "minutes_unreadable": "{text!r} is not a number of minutes above zero.",
    "origin_unreadable": "{text!r} is not an origin; write it as browsers do, such as https://app.example:8443, "
    "without a path.",
    "poll_outside": "{text!r} is outside 100ms to 60s.",
    "port_taken": "Cannot listen on {host} port {port}: {problem}. Choose another with --port; 0 picks a free one.",
    "queue_served_anyway": "Every worker serves the queue {queue!r} by itself; leave it out.",
    "queue_slots_unreadable": "{text!r} does not name a queue and its slots; write for example mail=10,reports=2.",
    "rate_setting_not_positive": "{name}={value!r} is not a positive number.",
    "rate_setting_not_whole": "{names} must be a whole number, not {value}.",
    "retention_outside": "{text!r} is outside 1h to {most_days}d; write for example 30d.",
    "setting_file_unreadable": "{name}_FILE names {path!r}, which cannot be read: {problem}.",
    "setting_invalid": "{name}: {problem}",
    "setting_not_a_bit": "{text!r} is neither 1 nor 0.",
    "setting_not_a_choice": "{text!r} is not one of {choices}.",
    "setting_outside": "{text!r} is not a whole number from {least} to {most}.",
    "switch_unreadable": "{text!r} is neither on nor off; write 1 or 0.",
    "trace_url_unreadable": "{text!r} is not a page of traces; write for example "
    "https://jaeger.example/trace/{{trace_id}}, with http or https and {{trace_id}} in it.",
    "tracing_extra_missing": "Tracing is switched on, but OpenTelemetry is not installed. Run: pip install "
    "'horae[otel]'",
    "nats_monitor_unreadable": "{text!r} is no address of a NATS server. Write http://127.0.0.1:8222 for its "
    "monitoring, or nats://user:password@127.0.0.1:4222 for the system account.",
    "nats_server_unreadable": "{text!r} is no address of a NATS server. Write it as nats://127.0.0.1:4222, several "
    "separated by commas.",
    "value_invalid": "{where}: {problem}",
}
