"""The sentences of errors about declared jobs and schedules, by reason."""

ERRORS = {
    "after_no_list": "after={value} is not a list of ids; write for example after=['nightly-sync'].",
    "application_already_running": "This application is already running here; shut it down first.",
    "arguments_not_named": "arguments={value} are not named; write arguments={{name: value}}.",
    "argument_type_wrong": "{handler}: the argument {argument} must be {expected}, and {given} was given. Nothing "
    "is converted; pass the right type, or declare the job with check_types=False.",
    "check_types_not_boolean": "{handler}: check_types={value} must be True or False.",
    "arguments_unfit": "{handler} cannot be enqueued like that: {problem}. {advice}",
    "backoff_on_generator": "{function} is a generator: it has already handed out values when it fails, so it cannot "
    "be tried again. Put the back-off on the call inside it.",
    "backoff_outside": "A back-off needs retries, base and jitter of at least 0 and a factor of at least 1.",
    "blueprint_included_twice": "These jobs are already included in an application; make a new Blueprint() for each.",
    "blueprint_not_included": "These jobs belong to no application yet, so there is no store to enqueue them in. "
    "Include them where the application is made: app.include(jobs).",
    "concurrency_argument_missing": "The concurrency key {key!r} of {handler} needs the argument {argument}.",
    "connection_other_database": "The connection is one of {given}, and this application keeps its jobs in "
    "{expected}. Let both use the same database, or leave connection out.",
    "connection_in_autocommit": "The {given} commits every statement at once, so that there is no transaction to "
    "join. Begin one first, or leave connection out.",
    "django_setting_unknown": "settings.HORAE has no {name!r}; it takes {choices}.",
    "django_database_unknown": "settings.HORAE names the database {name!r}, and settings.DATABASES has {choices}.",
    "django_engine_unknown": "Django's engine {engine!r} is not one that Horae can share; choose one of {choices}, "
    "or give HORAE a URL.",
    "django_transaction_broken": "The transaction of Django's connection {alias!r} has failed and will be rolled "
    "back; a job in it would be lost. Let the exception leave its atomic block.",
    "connection_unusable": "connection={given} is no connection that can be joined. Give one of SQLAlchemy (a "
    "Connection or a Session), Django, sqlite3, psycopg 3 or PyMySQL. From an AsyncSession or AsyncConnection use "
    "enqueue_async, or run_sync.",
    "cron_no_text": "cron={value} is not text; write for example cron='0 3 * * *'.",
    "declarations_invalid": "These declarations cannot work; correct each of them:\n{problems:lines}",
    "gather_exclusive": "{handler} is exclusive and debounced or collected; an exclusive job is refused while another "
    "runs, and calls that join each other never are. Drop one of the two.",
    "exclusive_with_limit": "{handler} is exclusive, so its concurrency_limit is 1; drop one of the two.",
    "executor_needs_async": "{handler} is not an async function; drop executor=, or use thread or process.",
    "executor_refuses_async": "{handler} is an async function; drop executor=, or use async or process.",
    "executor_unknown": "Unknown executor {executor!r} of {handler}; choose async, thread, process, ray, dask or "
    "kubernetes, or give an executor of your own.",
    "external_without_decide": "{handler} needs both Retry.external(…) and decide=…, or neither.",
    "file_choice_unknown": "Write one of {choices}.",
    "file_retry_key_unknown": "Unknown key {key} of retry. Write some of {choices}.",
    "file_value_not_a_span": 'Write seconds, or a duration such as "250ms", "90s", "5m" or "2h".',
    "file_value_not_a_list": "Write a list of ids in quotes, with at least one.",
    "file_value_not_a_number": "Write a number.",
    "file_value_not_a_retry": 'Write "none", or a table such as {{ kind = "fixed", attempts = 3, delay = "5m" }}.',
    "file_value_not_a_table": "Write a table, name by name.",
    "file_value_not_an_instant": "Write an instant with an offset, without quotes: 2030-01-07T06:00:00Z.",
    "file_value_not_boolean": "Write true or false, without quotes.",
    "file_value_not_text": "Write text in quotes.",
    "file_value_not_whole": "Write a whole number.",
    "file_value_too_many_ms": "Write fewer milliseconds; no calendar reaches that far.",
    "handler_misspelt": "No job named {name!r} is declared. Did you mean {close!r}?",
    "handler_not_declared": "No job named {name!r} is declared; declare it with @app.job, or import the module that "
    "does.",
    "job_declared_twice": "There is already a job named {handler!r}; names are unique in one app.",
    "job_is_generator": "{handler} is a generator function: calling it would run none of its code. Remove the yield, "
    "or go through the generator in a plain function and declare that.",
    "job_limit_too_low": "The concurrency limit {value} of {handler} would never run; use 1 or more.",
    "job_not_callable": "{value} cannot be a job: decorate a function, or a class with run(ctx).",
    "job_priority_unknown": "Unknown priority {priority!r} of {handler}; choose one of {choices}.",
    "job_retry_unreadable": "retry={value} of {handler} is no policy; write for example Retry.fixed(60, attempts=3).",
    "limit_declared_twice": "The limit {name} is declared twice; keep one.",
    "option_invalid": "{name}: {problem}",
    "parameter_not_by_name": "The parameter {parameter} of {handler} cannot travel as JSON by name; make it an "
    "ordinary parameter.",
    "run_method_missing": "{function} cannot be the job {handler!r}: it has no method run(self, ctx). Write one, "
    "async or not.",
    "run_without_context": "{function}.run of {handler!r} must take the context: run(self, ctx).",
    "scheduled_arguments_missing": "{problem} A scheduled job brings its arguments along: arguments={{…}}.",
    "seed_key_unknown": "The seed {seed!r} has an unknown key {key!r}; known are {choices}.",
    "seed_no_mapping": 'The seed {seed} is no mapping; write {{"id": "nightly", "cron": "0 3 * * *"}}.',
    "seed_without_id": 'The seed {seed} names no schedule; add "id": "…".',
    "seed_without_times": "The seed {seed!r} does not say when; give cron, every or after.",
    "service_extra_missing": "The service needs {module!r}, which is not installed. Run: pip install 'horae[server]'",
    "sensitive_not_names": "sensitive={value} of {handler} is not a list of names; write for example "
    'sensitive=["password"].',
    "tenants_not_boolean": "tenants={value} of {handler} is neither True nor False; say whether tenants may run it.",
    "verifier_kind_unknown": "There is no kind {kind} of objects to verify. Choose one of {choices}.",
    "verifier_not_remote": "The verifier of {kind} looks at objects of the database and cannot run on {executor}; "
    "choose async, thread or process.",
    "verifier_parameters": "The verifier of {kind} takes one argument, the object, and before it ctx if it wants the "
    "context; this one takes {signature}.",
    "worker_needs_database": "These declarations need a database; run the worker with --db:\n{problems:lines}",
    "all_nodes_elsewhere": "mode='ALL_NODES' runs it on every node itself, not on {executor}; drop mode= or executor=.",
    "all_nodes_needs_database": "mode='ALL_NODES' records its runs in the database, and this worker reaches a "
    "service only: run it where the database is, with --db.",
    "all_nodes_without_times": "ALL_NODES needs cron=… or every=…: each node runs it by its own timer.",
    "class_unmakeable": "{function} cannot be made: {problem}",
    "concurrency_key_idle": "concurrency_key holds for jobs that are enqueued; for its fires say overlap=…, or "
    "limit their group.",
    "dependencies_in_circle": "its dependencies need each other in a circle: {circle:path}; make one of them "
    "without the other.",
    "dependency_missing": "nothing provides its {name}: {kind}; add app.provide({kind}, …).",
    "dependency_needs_async": "its {kind} comes from an async factory; make run an async function.",
    "file_enabled_not_boolean": "enabled = {value}: write true or false, without quotes.",
    "file_item_twice": "{name!r} is there twice; keep one item.",
    "file_item_without_id": 'this item names no job; add id = "…".',
    "file_items_no_list": "write [[jobs.items]] for each job.",
    "file_job_misspelt": "no job {name!r} is declared; did you mean {close!r}?",
    "file_job_unknown": "no job {name!r} is declared; `horae check` lists what is declared.",
    "file_job_without_times": "{name} has no schedule in code that could be changed; give cron, every or after.",
    "file_jobs_no_table": "write [jobs] and [[jobs.items]].",
    "file_key_misspelt": "unknown key {key!r}; did you mean {close!r}?",
    "file_key_unknown": "unknown key {key!r}; known are {choices}.",
    "file_limit_invalid": "{key} = {value}: {problem}",
    "file_limits_no_table": "write [jobs.limits] with global, groups and queues.",
    "file_limits_not_by_name": "write [jobs.limits.{table}], name by name.",
    "file_option_invalid": "{key} = {value} of {name}: {problem}",
    "file_option_refused": "{key} of {name} cannot be written in a file: {advice}",
    "file_options_exclusive": "{options} of {name} exclude each other; keep one.",
    "file_options_same": "{options} of {name} say the same thing; keep one.",
    "file_unreadable": "cannot be read: {problem}.",
    "followed_elsewhere": "after={followed!r}: no scheduled job here has that id; if another application has it, "
    "all is well.",
    "gather_idle": "debounce and collect hold for jobs that are enqueued; each fire of the schedule is a job by "
    "itself.",
    "initial_delay_idle": "initial_delay has an effect only with every=…; it is ignored.",
    "job_id_blank": 'a job needs an id that is not blank: @app.job("clean-expired-tokens", …).',
    "jobs_in_circle": "these jobs would wait for each other in a circle: {circle:path}",
    "limited_group_misspelt": "no job here declares the group {group!r} that is limited; did you mean {close!r}?",
    "limited_group_unknown": "no job here declares the group {group!r} that is limited.",
    "single_node_without_locks": "SINGLE_NODE needs a lock manager and this application has none: set app.locks = "
    "'database' (the default), 'memory' for a single process, or a Redis URL; or declare mode='ALL_NODES'.",
    "lock_needs_database": "its lock is kept in the database, and this worker reaches a service only: set "
    "app.locks to a Redis URL, or run it where the database is, with --db.",
    "lock_ttl_idle": "lock_ttl has no effect with mode='ALL_NODES', which takes no lock; drop one.",
    "lock_ttl_not_positive": "lock_ttl={lock_ttl} must be above zero: seconds or a timedelta, longer than the "
    "longest run.",
    "mode_unknown": "mode={mode} is not known; choose SINGLE_NODE (one node runs it) or ALL_NODES.",
    "no_jobs_declared": "no job is declared here; write @app.job(…), or include the module that declares them: "
    "app.include(jobs).",
    "option_empty": "{option}={value} is empty; give a schedule, or leave {option} out.",
    "option_misspelt": "unknown option {option!r}; did you mean {close!r}?",
    "option_unknown": "unknown option {option!r}.",
    "options_exclusive": "{options} exclude each other; keep one of them.",
    "options_idle": "{options} without cron=…, every=… or after=… has no effect.",
    "rate_limit_needs_database": "its rate limit counts in the database, and this worker reaches a service only: "
    "run it where the database is, with --db.",
    "seed_handler_unknown": "its handler {handler!r} is declared nowhere; declare it, or pass it to "
    "load_persisted_jobs(registry).",
    "two_shard_keys": "it has concurrency_key= and {other}=, which may live in different databases of a cluster; "
    "there its jobs need shard_key= at each enqueue, unless they are a tenant's: give it, or declare one of the "
    "two only.",
}
