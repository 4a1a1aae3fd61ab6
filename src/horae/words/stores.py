"""The sentences of errors about databases, backups, locks and Redis, by reason."""

ERRORS = {
    "bus_address_unusable": "{address!r} is no address of a worker on the bus. Use up to 100 letters, digits, - and _.",
    "bus_arguments_unreadable": "The arguments of the call {call} do not fit: {problem}. Send what the page of the "
    "bus lists.",
    "bus_call_failed": "The relay could not do it ({problem}); its log says more.",
    "bus_executes_only": "A worker on a message bus executes and enqueues jobs; {operation} takes a database or a "
    "service. Run this where there is one: horae worker with --db or --url.",
    "bus_message_too_large": "The message has {size} bytes, and the bus takes {most}. Raise max_payload of the NATS "
    "servers, send less, or let a worker with a database do it.",
    "bus_message_unreadable": "The message has no usable {field}. Send what the page of the bus lists.",
    "bus_not_in_child": "A handler in a child process does not reach the bus, and {operation} goes over it. Enqueue "
    "from a handler without executor='process', or run the worker with --db or --url.",
    "bus_of_another_database": "The stream {stream} belongs to another database. Give each database a prefix and a "
    "stream of its own: HORAE_NATS_PREFIX, HORAE_NATS_STREAM.",
    "bus_relay_silent": "No relay has answered within {seconds} seconds. Look whether a worker or server with the "
    "database runs with HORAE_NATS and HORAE_NATS_DISPATCH=1, with the same prefix.",
    "bus_stream_refused": "The stream {stream} cannot be made ({problem}). Look at the NATS servers, and at "
    "HORAE_NATS_REPLICAS.",
    "bus_does_not_answer": "The message bus does not acknowledge events ({problem}). They wait in the outbox and are "
    "published again; look at the stream and its servers.",
    "bus_prefix_unusable": "{prefix!r} cannot begin a subject. Use letters, digits, - and _, in parts separated by "
    "dots, such as shop.horae.",
    "bus_triggers_not_permitted": "This role may not create triggers, which note events for the message bus. Run "
    "horae bus on once with a role that may.",
    "bus_unreachable": "The message bus cannot be reached ({problem}). Events wait in the outbox and jobs in the "
    "database; look at HORAE_NATS and at the servers.",
    "nats_extra_missing": "This needs the client of NATS ({problem}). Run: pip install 'horae[nats]'",
    "backup_damaged": "{path} is damaged: {problem}. Use another copy.",
    "backup_exists": "{path} is there already. Choose another name, or add --force to replace it.",
    "backup_failed": "{path} cannot be copied: {problem}. Nothing was changed.",
    "backup_locked": "{path} is locked by another process. Nothing was changed; repeat later.",
    "backup_missing": "There is no file at {path}.",
    "backup_no_room": "There is no room for a copy of {path}. Nothing was changed; free some space.",
    "backup_not_ours": "{path} is a SQLite database, but not one of Horae's; choose another file.",
    "backup_not_sqlite": "{path} is not a SQLite database; choose another copy.",
    "backup_too_new": "{path} was written by a newer Horae (tables {version}); upgrade this one (tables {known}).",
    "backup_tool_missing": "{tool} is not installed here, and PostgreSQL is copied by it. Install the client programs "
    "of PostgreSQL, or run it on another host.",
    "backup_too_old": "{path} has tables of version {version}, older than {oldest}, which cannot be migrated here. "
    "Restore it with the Horae that wrote it, run `horae db export --out FILE` there, and `horae db import FILE` here.",
    "backup_unwritable": "{path} cannot be written: {problem}. Check the folder and its permissions.",
    "bundle_exists": "{path} is there already. Choose another name.",
    "bundle_unwritable": "{path} cannot be written: {problem}. Check the folder and its permissions.",
    "commit_refused": "This transaction commits when you return, together with its record; do not commit it.",
    "database_contended": "{product} kept refusing because of other transactions; try again in a moment.",
    "database_driver_async": "Horae needs a driver that is not asyncio's: write {kind}://… instead of {driver}://…, "
    "and keep the other for your own engine.",
    "database_driver_missing": "The driver for {kind} is not installed ({problem}). Run: pip install 'horae[{extra}]'",
    "database_file_missing": "There is no database at {path}.",
    "database_full": "{product} has no room left: {problem} Nothing was written; free some space on its disk.",
    "database_gave_up": "{product} gave up: {problem} Nothing was written; try again in a moment.",
    "database_locked": "The database is locked by another process: {problem}. Repeat later.",
    "database_no_room": "The database has no room left: {problem}. Free some space on its disk.",
    "database_not_reached": "{product} cannot be reached: {problem} Nothing was written; repeat it later.",
    "database_refused": "{product} refused: {problem}",
    "database_unreachable": "The database cannot be reached: {problem}. Check its URL and state.",
    "database_unsupported": "Horae does not speak to {kind!r}. Use sqlite, postgresql or mysql (MariaDB).",
    "database_url_unreadable": "The database URL cannot be read. It looks like sqlite:///horae.db, "
    "postgresql://user@host/name or mysql://user@host/name.",
    "export_changed": "{path} was changed after it was written: its SHA-256 differs. Use the file as it was exported.",
    "export_counts_differ": "{path} has other numbers of rows than its last line says. Export it again.",
    "export_cut_off": "{path} ends too early: its last line is missing. Export it again.",
    "export_bytes_unreadable": "Line {line}: {field!r} of {table} is not base64. Use the export as it was written.",
    "export_field_missing": "Line {line}: a row of {table} has no {field!r}, which this Horae needs. Export with a "
    "newer Horae.",
    "export_field_unknown": "Line {line}: this Horae knows no field {field!r} of {table}. Upgrade to the version that "
    "exported the file.",
    "export_goes_on": "{path} goes on behind its last line, at line {line}. Use the file as it was exported.",
    "export_line_unreadable": "Line {line} of {path} cannot be read. Use the file as it was exported.",
    "export_not_ours": "{path} was not written by `horae db export`; choose another file.",
    "export_table_unknown": "Line {line}: this Horae knows no table {table!r}. Upgrade to the version that exported "
    "the file.",
    "export_too_new": "{path} has the format {format}, written by Horae {version}, which this Horae does not know. "
    "Upgrade it.",
    "folder_unmakable": "The folder {folder} of the database cannot be made: {problem}.",
    "import_done_before": "{path} was imported already, by {actor} at {at}; nothing of it is missing. Go on with the "
    "database as it is.",
    "import_not_empty": "The database holds something already, in {tables}. Import into an empty one, made with: horae "
    "db migrate",
    "import_row_refused": "The database refused a row of {table}: {problem}. Nothing was written.",
    "lock_held": "The lock {key!r} is held by another process. Try again later, wait longer with wait=…, or ask with "
    "try_lock and do something else when it answers None.",
    "lock_key_unreadable": "A lock needs a printable key of 1 to {most} characters, not {key}.",
    "lock_ttl_too_long": "A lock must end by itself: a ttl of {ttl:span} never does; {most_days:,} days fit.",
    "lock_ttl_too_short": "A lock must end by itself: give a ttl of at least a millisecond, not {ttl:span}. Choose it"
    " longer than the work, or extend the lock while working.",
    "migration_too_long": "Another process has been migrating this database for ten minutes. Check that it is still "
    "at work, then repeat.",
    "outcome_unknown": "{product} went away or did not answer: {problem} Outcome unknown: it may have been written, "
    "or not. Repeat an enqueue with the same key=… and it cannot happen twice.",
    "pool_exhausted": "All database connections of this process are in use. End transactions sooner, or give the "
    "engine a larger pool.",
    "redis_client_missing": "The Redis client is not installed. Run: pip install 'horae[redis]'",
    "redis_prefix_missing": "A prefix for the Redis keys is needed, so that they do not collide with other keys.",
    "redis_refused": "Redis refused: {problem}.",
    "redis_unreachable": "Redis cannot be reached or did not answer: {problem}. Check that it runs and that its URL "
    "is right.",
    "redis_url_unreadable": "The Redis URL cannot be read ({problem}). It looks like redis://host:6379/0.",
    "retry_interval_too_short": "retry_interval must be positive: waiting for a lock sleeps, it never spins.",
    "row_security_unsupported": "Row level security needs PostgreSQL. On other databases Horae's own checks keep "
    "tenants apart; nothing else is needed.",
    "sqlite_damaged": "{path} cannot be used: {problem}. Check the path in the database URL; a damaged file is "
    "replaced by a backup with: horae db restore",
    "sqlite_locked": "Another transaction holds the SQLite file. End it sooner, or hand it to Horae with "
    "connection=…; horae.prepare_sqlite(engine) makes an application's own writers queue up instead of failing.",
    "sqlite_unusable": "SQLite cannot write or read: {problem}. Check the disk and the file's permissions.",
    "sqlite_url_has_host": "The database URL of a SQLite file has no host: write sqlite:///horae.db, with three "
    "slashes, and four for an absolute path, sqlite:////srv/horae.db.",
    "tables_missing": "The database has no (or old) Horae tables: {problem}. Run: horae db migrate",
    "tables_old": "The database has {found}; this Horae needs {needed}. Run: horae db migrate",
    "tables_too_new": "The database has Horae tables of version {version}, which this Horae (tables {known}) does not"
    " know. Upgrade the horae package to at least the version that migrated it.",
    "tables_too_old": "The database has Horae tables of version {version}, older than {oldest}, which cannot be "
    "migrated here. Run `horae db export --out FILE` with the older Horae, then with this one `horae db migrate` on "
    "an empty database and `horae db import FILE` into it.",
    "transaction_nested": "This thread is already inside a Horae transaction on this SQLite file and would wait for "
    "itself. Inside ctx.once, or a transaction of your own, pass connection=… so that the call joins it.",
    "transaction_waited": "Another transaction of this process has held the SQLite file for {seconds:g} seconds. End "
    "it sooner: what runs inside ctx.once keeps every other write waiting.",
}
