"""The sentences of errors about what was typed on the command line, by reason."""

ERRORS = {
    "alerts_extra_missing": "Alerts are sent over HTTP. {problem}",
    "answer_missing": "Give --approve or --deny; without an answer the wait times out.",
    "agent_unknown": "{target} is no agent. Write module:name of an Attention; the module declares: {agents}.",
    "anchor_key_or_check": "Sign with --key FILE, or check with --check FILE --public-key FILE.",
    "anchor_key_unreadable": "{path} is no {which} Ed25519 key in PEM. Make one with `openssl genpkey -algorithm "
    "ed25519 -out head.key`, and its public half with `openssl pkey -in head.key -pubout -out head.pub`.",
    "anchor_nothing_sealed": "The journal of {lane!r} has no sealed line yet; try again in a few seconds.",
    "anchor_unreadable": "{path} is not a signed head of a journal; `horae attention anchor --key head.key` makes one.",
    "app_has_no_such_name": "{module} has no {name!r}. The applications that it declares: {apps}.",
    "app_of_wrong_type": "{target} is a {type}, not a Horae application. The applications that the module declares: "
    "{apps}.",
    "app_opens_database_early": "{target} opens its database while it is imported, so --db comes too late. Move what "
    "enqueues or queries at import time into a function.",
    "application_unnamed": "No application is named. Write: horae {command} module:app, or set HORAE_APP.",
    "argument_unreadable": "{text!r} is not an argument; write --arg order_id=42.",
    "arguments_given_twice": "Give --args or - for stdin, not both.",
    "arguments_no_object": "The arguments must be one JSON object, name by name, for example '{{\"order_id\": 42}}'.",
    "arguments_unreadable": "The arguments are not JSON: {problem}. Write for example '{{\"order_id\": 42}}'.",
    "copy_in_memory": "A database in memory cannot be copied; name a file with --db.",
    "copy_with_tool": "This copies SQLite files; for this database use its own tool: {tool}",
    "cron_option_without_cron": "{option} is for cron; {text!r} is not cron. Leave the option out.",
    "database_missing_here": "There is no database at {path}. Go to the folder where it is, name it with --db or "
    "HORAE_DATABASE_URL, or make one with: horae db migrate",
    "database_open_elsewhere": "Another process has {path} open. Stop it first, or add --force.",
    "database_or_bus": "Give --nats alone, without --db or --url: a worker takes its jobs from one place.",
    "database_or_service": "Give --db or --url, not both: a database is opened here, a service is asked.",
    "database_served": "{nodes} work on {path}. Stop them first, or add --force: they go on with the restored rows, "
    "and what they are at now is refused when they finish it.",
    "demo_database_given": "The demo makes a database of its own and never touches yours; --keep FILE leaves it there.",
    "demo_file_exists": "There is already a file {path}; the demo writes only to a new one. Choose another name.",
    "demo_process_ended": "The process to be killed ended by itself: {problem}",
    "jobs_named_twice": "Name the jobs or give {flag}, not both.",
    "jobs_unnamed": "Name the jobs, or give {flag}.",
    "keep_unreadable": "--keep: {text!r} does not say what to keep; write for example runs=90d,keys=14d.",
    "import_database_silent": "{url} cannot be read ({problem}). Check the URL, and that its server runs.",
    "import_missing": "There is no file {path}. Name the file, or - for stdin.",
    "import_no_beat_schedule": "A {type} has no beat_schedule. Write horae import celery module:app, with the name of "
    "the Celery application or of the dictionary.",
    "import_table_missing": "{url} has no table {table}. Name the database that the other scheduler uses.",
    "import_target_missing": "{module} has no {name!r}. Write horae import celery module:app, with the name of "
    "the Celery application or of the dictionary.",
    "import_unreadable": "{path} cannot be read: {problem}. Give a text file in UTF-8.",
    "lane_ambiguous": "There are {count} lanes ({names}); choose one with --lane NAME.",
    "lane_missing": "There is no lane yet. Start an agent, which makes its own, or name one with: --lane NAME",
    "lease_under_a_second": "A lease of {lease:span} is too short to be kept; use one second or more.",
    "limit_unreadable": "{text!r} is not a limit; give a number, or none to lift it.",
    "log_option_unknown": "Logs are text or json, and their level one of {levels}; not {format} at {level}.",
    "max_fires_unreadable": "--max-fires {text!r} is not a number; give one, or none to lift the bound.",
    "mcp_extra_missing": "horae mcp needs 'mcp', which is not installed. Run: pip install 'horae[mcp]'",
    "metrics_extra_missing": "--metrics-port needs prometheus-client. Run: pip install 'horae[server]'",
    "module_broken": "{module} cannot be imported: {problem} ({where}).",
    "module_misspelt": "There is no module {module!r} here ({folder}). Did you mean {close}?",
    "module_missing": "There is no module {module!r} here ({folder}). Start the command in the folder that holds it, "
    "or install its package.",
    "module_name_unreadable": "{text!r} is not the name of a module; write for example receipts:app.",
    "module_needs_package": "{module} cannot be imported: it needs {package!r}, which is not installed here "
    "({where}). Install it.",
    "needs_database_here": "This command needs the database itself; run it where the database is, with --db, not "
    "--url.",
    "nothing_to_change": "Nothing to change was given; `horae schedule change --help` shows what can be.",
    "options_need_database": "What needs the database: {options}. Leave it out, or use --db instead of --url.",
    "owner_from_token": "The token says who the owner is; leave out --owner.",
    "reschedule_time_unclear": "Say when: give --to INSTANT or --in SPAN, one of them.",
    "restore_with_tool": "This copies SQLite files; for this database stop all servers and workers first, then use "
    "its own tool: {tool}",
    "retry_of_ended": "Job {id} is {state}; only dead and waiting jobs can be tried again. "
    "Run it once more as a new job: horae job rerun {id}.",
    "rerun_arguments_unnamed": "The arguments of this job have no names, so that none can be changed alone. "
    "Give all of them with --args.",
    "retry_of_running": "Job {id} is running; only dead and waiting jobs can be tried again. Instead wait for it, or "
    "cancel it.",
    "schedule_named_twice": "Name one schedule or a --group, not both.",
    "schedule_unnamed": "Name one schedule, or a --group.",
    "screen_missing": "top draws on a terminal; elsewhere use --once, or --json for a line at each change.",
    "url_extra_missing": "--url asks a service. {problem}",
    "service_forbids": "{problem} The token is that of --token or $HORAE_TOKEN.",
    "service_refuses_token": "{problem} The token is that of --token or $HORAE_TOKEN; the operator makes another "
    "with: horae token create",
    "service_wants_token": "{problem} Give a token in $HORAE_TOKEN; the operator makes one with: horae token create",
    "setting_unreadable": "{text!r} is not NAME=VALUE; write for example verify_budget=3.",
    "target_is_path": "{target!r} is a path; name the module: {module}",
    "tasks_extra_missing": "Users' tasks call out over HTTP. {problem}",
    "tasks_with_application": "--tasks runs built-in jobs only, so an application has no effect; leave one of them "
    "out. A worker of an application runs users' tasks too.",
    "tasks_with_config": "--tasks runs built-in jobs only, so --config has no effect; leave one of them out.",
    "timing_ambiguous": "Say when: give exactly one of --cron, --every, --once and --after.",
    "tools_for_operator": "--tools is about an agent's tools, and an operator's server has none; leave it out.",
    "word_too_many": "{text!r} is one word too many; arguments are given with --arg, --args or - for stdin.",
}
