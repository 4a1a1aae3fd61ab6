"""The sentences of the doctor, by reason; ``{count:jobs}`` reads a number of jobs."""

ERRORS: dict[str, str] = {}

WHY = {
    "application_declares": "{app} declares {count:jobs}",
    "bus_behind": "Events wait to be published: {count:,}, the first since {since}. No process publishes them, or "
    "the bus does not acknowledge: start a worker or server with HORAE_NATS.",
    "bus_incomplete": "Events should be noted for the message bus, but triggers are missing: {names}. Events of what "
    "happens meanwhile are lost.",
    "bus_off": "no events are noted",
    "cluster_bus_behind": "Events of the database {name} wait to be published: {count:,}, the first since {since}. "
    "Start a worker or server with HORAE_NATS that reaches it.",
    "cluster_bus_incomplete": "The database {name} should note events for the message bus, but triggers are missing: "
    "{names}. Events of what happens there meanwhile are lost.",
    "cluster_bus_well": "the message bus is served in {count} databases",
    "cluster_dispatch_missing": "No process hands out the jobs of the database {name} on the message bus. Start a "
    "worker or server with HORAE_NATS and HORAE_NATS_DISPATCH=1 that reaches it, and look at its log.",
    "cluster_member_away": "The database {name} of the cluster cannot be asked: {problem} What it keeps waits there.",
    "cluster_settings_behind": "The database {name} lacks {count} settings of the house that another one has. Workers "
    "and servers that serve it bring them within a minute.",
    "cluster_member_behind": "The database {name} has version {version} of the cluster's map, not {newest}.",
    "cluster_member_moving": "{count:,} virtual shards of {name} are marked as moving: nothing can be stored in them. "
    "Repeat the act that was interrupted.",
    "cluster_member_unserved": "No live worker serves the database {name} of the cluster: its jobs wait. Start a "
    "worker, or look into the log of one that runs: it says why it does not reach the database.",
    "cluster_undelivered": "{count:,} messages of the database {name} to {to} are not delivered, the oldest for {age}: "
    "jobs in {to} wait for them. They are sent again until {to} answers and a worker or server of {name} runs.",
    "cluster_queues_unserved": "No live worker serves {queues} in the database {name} of the cluster, although one "
    "does elsewhere: jobs wait there. Look into the log of a worker: it says why it does not reach the database.",
    "cluster_well": "{count:,} databases agree on version {version} of the map",
    "bus_flush_accepted": "NATS may acknowledge before it writes to disk, as HORAE_NATS_FLUSH accepts: a power cut may "
    "lose acknowledged events, and delays jobs on their way",
    "bus_flush_late": "NATS acknowledges before it writes to disk ({names}: every {interval:g} s): a power cut loses "
    "acknowledged messages. Set sync_interval: always in the jetstream section of each server, or accept it with "
    "HORAE_NATS_FLUSH=interval.",
    "bus_flush_unknown": "It is unknown whether NATS writes to disk before it acknowledges. Name the monitoring of "
    "each server, or the system account, in HORAE_NATS_MONITOR, or vouch for it with HORAE_NATS_FLUSH=always.",
    "bus_flush_vouched": "HORAE_NATS_FLUSH vouches that NATS writes to disk before it acknowledges",
    "bus_flush_well": "NATS writes to disk before it acknowledges: {names}",
    "bus_monitor_away": "{address} does not say how NATS writes to disk: {problem}.",
    "bus_replicas_few": "A lost NATS server may take messages along: {names} instead of {most} servers keep a "
    "stream. Set HORAE_NATS_REPLICAS before streams are made; change those that are there with the tools of NATS.",
    "bus_servers_away": "The NATS servers do not answer: {problem}",
    "bus_streams_none": "NATS answers, and there are no streams of Horae yet",
    "bus_streams_well": "NATS keeps {names} on three servers or more",
    "bus_window_short": "The stream {stream} knows a repeated message again for {window:g} s only; {least:g} s or "
    "more are needed where a relay may be away for a while.",
    "bus_well": "events are noted, and {count:,} wait to be published",
    "budget_exceeded": "The budget {budget} of {owner} was exceeded by {amount:,}.",
    "budget_wrong": "Budget number {number}, period of {period}: {problem}.",
    "budgets_well": "no budget is exceeded, and reservations add up",
    "check_failed": "This check could not be made: {problem}",
    "chores_done": "done when they are due",
    "chores_late": "No process does chores: {names} should have begun {late:span} ago. Workers over HTTP and "
    "servers with --no-chores do none: start one process that does.",
    "chores_late_and_waiting": "No process does chores: {names} should have begun {late:span} ago. Meanwhile "
    "{waits}. Workers over HTTP and servers with --no-chores do none: start one process that does.",
    "chores_never_done": "No process has done chores yet. Meanwhile {waits}. Workers over HTTP and servers with "
    "--no-chores do none: start one process that does.",
    "chores_nothing_yet": "nothing is to be done yet",
    "clock_of_this_machine": "the database has the clock of this machine",
    "clocks_agree": "this machine's clock and the database's differ by {seconds:.3f} s",
    "clocks_differ": "This machine's clock and the database's differ by {seconds:.3f} s. Workers follow the "
    "database's.",
    "database_absent": "There is no database at {path}.",
    "database_answers": "{url} answers ({took:.0f} ms)",
    "database_trouble": "The database: {problem}",
    "dead_none": "no job has given up",
    "dead_some": "{count:jobs} gave up after the last attempt.",
    "dispatch_missing": "No process hands out jobs on the message bus, though HORAE_NATS_DISPATCH says so: start a "
    "worker or server with HORAE_NATS and HORAE_NATS_DISPATCH=1, and look at its log.",
    "dispatch_well": "a relay hands out jobs on the message bus",
    "disk_full": "Nothing can be stored in {folder}: {problem}. Jobs are refused, and none can end.",
    "disk_low": "Only {free:.1f} GiB are free in {folder}.",
    "disk_lowest": "Only {free:.0f} MiB are free in {folder}; soon nothing can be stored.",
    "disk_well": "{free:.1f} GiB are free in {folder}",
    "doctor_schedules_inactive": "{count} inactive ({names}): {because}",
    "doctor_runs_missing": "{count} schedules and jobs should have succeeded by now and have not: {names}.",
    "doctor_schedules_overdue": "{count} schedules were due over a minute ago and no worker fires them: {names}.",
    "door_guarded": "the service listens on {host} and requires a token of every caller",
    "door_local": "the service listens on {host}, for this machine alone",
    "door_without_token": "The service listens on {host}, and there is no valid token.",
    "due_late": "{count:jobs} due, the oldest since {since} in {queue}: more comes in than is done.",
    "due_none": "nothing that is due waits",
    "due_some": "{count:jobs} due, the oldest since {since} in {queue}",
    "durability_promise": "{product}: {promise}; {loses}",
    "engine_gave_nothing": "The engine of {app} gave no connection within {patience:g} seconds.",
    "engine_refused": "The engine of {app} gave no connection: {problem}.",
    "engine_well": "the engine of {app} limits how long it waits",
    "engine_without_limits": "{app} brings an engine of its own, without a limit for {missing}: when the database "
    "falls silent, enqueue() and workers wait for ever.",
    "extras_all": "installed: {installed}",
    "extras_some": "installed: {installed}; not installed: {missing}",
    "hints_arrive": "LISTEN and NOTIFY arrive",
    "hints_missing": "NOTIFY does not arrive, so that workers find new work by looking: a pooler in transaction "
    "mode stands in between.",
    "history_aside": "{rows:,} rows of {table} or more lie aside, because its catch-all was emptied. A worker or "
    "server brings them back; until then lists do not show them.",
    "history_beside": "{rows:,} rows of {table} lie in the catch-all partition. A worker moves them, unless they "
    "ended in the future: look at the clocks.",
    "history_overfull": "More than {rows:,} rows of {table} lie in the catch-all. A worker or server empties it "
    "beside the work; where it may not, or rows ended in the future, do it at a quiet hour.",
    "history_short": "{table} has partitions for {days} more days, fewer than {least}. No worker makes them, or "
    "its role may not: what ends later lies in the catch-all.",
    "history_well": "its partitions are made for {days} more days",
    "hosts_old_primary": "{hosts} can be written to, although another host of the URL was promoted (timeline "
    "{timeline}). Processes that have met the new primary refuse it; one that reaches only the old one cannot know. "
    "Stop it.",
    "hosts_two_primaries": "{hosts} can all be written to and have the same timeline {timeline}: nothing tells which "
    "one is right. Stop all but one.",
    "lanes_driven": "no task of an agent waits for a process that drives it",
    "lanes_undriven": "Tasks have been ready for over five minutes, and no process drives their lanes: {names}.",
    "leases_stuck": "{count:jobs} held by workers that have gone silent, and none hands them on: {names}.",
    "leases_well": "no lease is held by a worker that has gone silent",
    "migrations_current": "its tables are current ({version})",
    "migrations_near": "The database has tables of version {found}, newer than those of this Horae ({wanted}), which "
    "goes on with them until it is upgraded.",
    "migrations_older": "The database has tables of version {found}; this Horae needs {wanted}.",
    "migrations_trouble": "Its tables: {problem}",
    "orchestrator_missing": "{count} schedules ask an orchestrator, and ORCHESTRATOR_URL is not set here.",
    "parents_lost": "{count:jobs} waiting for jobs that are dead or cancelled, and for ever: {names}.",
    "parents_unsettled": "{count:jobs} still to be ended, released or brought back, because others ended or were "
    "revived.",
    "parents_well": "no job waits for one that will never succeed",
    "permissions_open": "Everybody on this machine can read {path}: payloads, errors, audit.",
    "permissions_well": "{path} is not readable for other users",
    "port_answers": "a service answers at {host} port {port}",
    "port_free": "port {port} of {host} is free",
    "port_not_ours": "The service could not listen on {host} port {port}: {problem}.",
    "promises_broken": "{count} of what Horae keeps would wait for ever: {names}. A worker that runs mends it.",
    "promises_kept": "every wait has its timeout, every schedule that is on its next fire",
    "doctor_queue_paused": "The queue {queue} is paused by {actor}; {count:jobs} due in it.",
    "doctor_queue_paused_because": "The queue {queue} is paused by {actor}: {because}; {count:jobs} due in it.",
    "queue_unserved": "No worker serves the queue {queue}; due since {since}: {count:jobs}.",
    "queues_open": "no queue is paused",
    "reservations_left": "{count} reservations of budgets belong to attempts that have ended: {names}. A worker "
    "settles them.",
    "schedules_well": "every schedule that is on has fired or waits for its time",
    "secrets_locked": "{count} secrets are stored and cannot all be opened: {problem}",
    "secrets_open": "all {count} stored secrets can be opened",
    "secrets_without_extra": "There are stored secrets, but cryptography is missing.",
    "setting_probably_meant": "{name} is not a setting of Horae; {meant} is probably meant.",
    "setting_unknown": "{name} is not a setting of Horae.",
    "settings_known": "every HORAE_… name in the environment is known",
    "sqlite_may_lose": "SQLite {version} can lose pages when a write meets a checkpoint at the wrong moment; "
    "3.51.3 and 3.53.0 cannot. Keep backups, or use PostgreSQL.",
    "sqlite_well": "SQLite {version} has the fix of the WAL-reset bug",
    "tables_missing": "The database has no Horae tables; this Horae needs {wanted}.",
    "tenants_held": "{count:jobs} of tenants held in the queue {queue}: the handler {handler} is not open to "
    "tenants. Where they may run it, declare it so and start its worker again.",
    "tenants_well": "no job of a tenant waits for a handler that is not open to tenants",
    "token_ends": "The token {token} of {owner} ends at {at}.",
    "tokens_well": "no token ends within two weeks",
    "tzdata_missing": "There is no time zone database here.",
    "tzdata_of_system_older": "The system's zone database is {edition}, the installed package has {packaged}; the "
    "older one is used.",
    "tzdata_old": "The zone database is of {year}; zones change several times a year.",
    "tzdata_well": "the zone database is {edition}",
    "versions_known": "Horae {version} on Python {python}",
    "workers_at_work": "{count} at work: {names}",
    "workers_none": "No worker was seen in the last three minutes.",
    "zones_elsewhere": "{count} schedules were computed with another zone database ({editions}) than the one here ("
    "{tzdata}): {names}. A worker that starts computes them again.",
    "zones_well": "every schedule was computed with the zone database that is in use here",
}
