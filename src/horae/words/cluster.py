"""The sentences of errors about clusters of databases, by reason."""

INCOMPLETE = "Incomplete: {databases} did not answer. What they keep is missing here."
PARTLY_APPLIED = "{applied} of {count} applied: {databases} did not answer. The rest follows by itself."
ERRORS = {
    "connection_outside_cluster": "The database of this connection is not a member of this cluster, so its transaction "
    "can store no jobs. Add it: horae cluster add NAME URL --no-shards.",
    "job_on_the_way": "{id} was stored in a transaction of another database and is still on the way to its shard. "
    "Repeat it in a moment; horae cluster list shows what is on the way.",
    "cluster_address_exists": "{address} is a database of this cluster already.",
    "cluster_database_in_memory": "A database in memory cannot be shared by a cluster; use a file or a server.",
    "cluster_database_taken": "{address} belongs to another cluster, or is number {number} of this one. Use an empty "
    "database.",
    "cluster_database_unsupported": "{kind} cannot be a database of a cluster. Use PostgreSQL or SQLite.",
    "cluster_database_used": "{address} has rows of its own. Add an empty database: numbers that were drawn before it "
    "joined could be those of other rows.",
    "cluster_draws_used_up": "Database number {number} of the cluster has given all of its numbers for jobs; a further "
    "one would be another database's. Nothing was stored. Move its shards to a new database: horae cluster add, drain.",
    "cluster_exists": "This database is a member of a cluster already ({name}, version {version} of the map).",
    "cluster_drain_last": "{name!r} is the only database of the cluster; there is none to move its shards to.",
    "cluster_drain_undelivered": "The shards of {name!r} were moved, but {count} jobs and messages there are not "
    "delivered yet. Keep that database running and repeat; horae cluster list shows which databases do not take them.",
    "cluster_map_busy": "The map of the cluster is being changed by others without a pause. Nothing is lost: run horae "
    "cluster check --repair in a moment.",
    "cluster_map_changed": "The map of the cluster has changed meanwhile: it has version {version}, not {expected}. "
    "Look at horae cluster list and repeat.",
    "cluster_member_exists": "The cluster has a database called {member!r} already. Choose another name.",
    "cluster_map_older": "The first database has version {version} of the map, {name!r} has {newest}: the first was "
    "restored from a copy. Nothing was changed; run horae cluster restored, or horae cluster check --repair.",
    "cluster_member_restored": "The database {member!r} was restored from a copy and does not fit the others yet. It "
    "serves nothing until horae cluster restored --db URL has been run.",
    "cluster_old_answers": "{member!r} still answers at {address}. Stop that database first: two of one number would "
    "give the same numbers.",
    "cluster_restore_wrong": "The copy is of number {found} of a cluster, the database is number {number}. Restore the "
    "copy of this database.",
    "cluster_restore_needs_all": "Every database must answer before one that was restored may serve again; these do "
    "not: {databases}. It stays closed; the others go on. Then repeat horae cluster restored --db URL.",
    "cluster_restore_forced": "A database of a cluster cannot be restored while processes work on it: stop them, and "
    "leave out --force.",
    "cluster_member_shardless": "{member!r} was added with --no-shards: it serves transactions of callers and keeps no "
    "shards. Name another database.",
    "cluster_member_unknown": "The cluster has no database {member!r}. It has: {known}.",
    "cluster_member_wrong": "The address of {member!r} leads to a database that is {found}, not number {number} of "
    "this cluster. Look at the map (horae cluster list) and at HORAE_CLUSTER_URLS.",
    "cluster_missing": "This database belongs to no cluster. Run horae cluster init first.",
    "cluster_name_unusable": "{name!r} cannot name a database. Use up to 40 lower-case letters, digits, - and _.",
    "cluster_numbers_used_up": "No more databases can be added: all {most} numbers were given, none is given twice.",
    "cluster_partly_stored": "{stored} of {count} jobs were stored, each in the database of its shard; others were "
    "not: {problem} Repeat with keys, or enqueue again what the error's answers name.",
    "cluster_urls_unreadable": "HORAE_CLUSTER_URLS must be name=url pairs separated by blanks; the pair of {name!r} "
    "is not.",
    "limit_below_databases": "A limit of {max_running} cannot be shared by the {databases} databases of this cluster, "
    "which each keep to a part of it. Give at least {databases}, or a key that leads to one database.",
    "shard_key_needed": "{handler} has {kinds}, which may live in different databases of this cluster. Give "
    "shard_key=, which decides for all of them, or one kind of key only.",
    "shows_one_database": "This list reads one database, but the house has rows in all of this cluster. Use the list "
    "of Horae's own interface, which merges them, or name a tenant.",
    "shard_key_long": "shard_key={shard_key!r} and {name!r} are too long together: at most {most} characters.",
    "stale_map": "This shard has moved, or its database has a newer map of the cluster than this process. Nothing was "
    "written; repeat it.",
    "token_on_the_way": "Shards are being moved between databases, and this token may be among them. Repeat it in a "
    "moment.",
    "vshard_busy": "This shard is being moved to another database. Nothing was written; repeat it in a moment.",
    "vshard_home_stays": "Virtual shard 0 is the home of everything of the house; it stays in its database.",
    "vshard_rows_split": "Rows of these shards refer to rows of others that would stay: {what}. Move the others with "
    "them, or wait until they have ended. Nothing was moved.",
    "vshard_act_open": "Bulk act {id} of the house is {state} and still walks the jobs of this database, so that none "
    "of its shards can be moved. Let it end with `horae act resume {id}` and a worker, or end it with "
    "`horae act cancel {id}`; then repeat the command, which goes on where it stopped.",
    "vshard_rows_stay": "Owners in these shards have {what}, which cannot be moved yet. Leave out their shards. "
    "Nothing of these shards was moved.",
    "vshards_moved_meanwhile": "These shards or the map (version {version} here) have changed meanwhile. Nothing was "
    "moved; look at horae cluster list and repeat.",
    "vshards_unreadable": "{text!r} does not name virtual shards. Write numbers and ranges from 0 to 4095: 17-40,99.",
}
