"""Differences between the three databases, as named facts. Callers ask for a fact, never for a vendor."""

from __future__ import annotations

from horae.core.dataclass import dataclass

# SQLITE_FULL and SQLITE_IOERR_SHMSIZE, no room for the index of SQLite's log; by number, because a worker on another
# database need not load SQLite.
NO_ROOM = {13, 4874}


@dataclass(frozen=True, slots=True)
class Dialect:
    """Facts about a database that statements depend on."""

    name: str
    partial_indexes: bool  # an index over the waiting rows only
    locking: str  # appended to a select whose rows are about to be claimed
    waiting_lock: str  # appended to a select that must wait for the row
    brief_lock: str  # the same, for a moment only
    shared_lock: str  # appended to a select whose rows `v` must not change until the transaction ends
    brief_lock_settings: tuple[str, ...]  # what must be said before, in the same transaction
    insert_ignore: tuple[str, str]  # what stands before INTO and after VALUES so that a known key changes nothing
    placeholder: str
    shares_clock: bool  # several hosts may use it, so its clock rules
    transactional_ddl: bool
    json_as_text: str  # how to ask for a JSON column as text
    last_number: str  # asks for the number drawn last, where a transaction that writes is the only one that does
    position_function: str  # where a text begins in another, compared byte by byte
    bytes_position: str  # the same for bytes
    rows_need_values: bool  # (a, b) IN (VALUES (1, 2)) instead of (a, b) IN ((1, 2))
    json_rows: str  # reads a JSON list of lists as rows; the columns are made by json_column, counted from 0
    json_column: tuple[str, str]  # a whole number, a text
    update_from: str  # changes a table by rows that are given
    upsert: tuple[str, str]  # what stands behind the rows to insert, and how a new value is named
    time_micros: str  # the database's own time in microseconds, NULL where the system's clock rules
    drawn_number: str  # the highest number that a table has drawn for its id
    # let a table without rows draw its numbers above one; ends a transaction on MariaDB
    continue_after: tuple[str, ...]
    snapshot: str | None = None  # the isolation under which a transaction reads one moment; None: any does
    # a scalar that is not NULL while a line of a journal may be without a seal
    unsealed_line: str = "(SELECT lane_id FROM horae_journal WHERE hash IS NULL ORDER BY lane_id LIMIT 1)"
    unsealed_index: str = ""  # forces the index that finds audit entries without a seal, where it is not chosen
    # a scalar that is not NULL while a job may wait for a slot
    held_for_slot: str = "(SELECT 1 FROM horae_jobs WHERE held = 'slot' LIMIT 1)"
    forced_index: str = ""  # names an index behind a table, where the right one is not always chosen
    owned_index: str = ""  # forces the index that holds a tenant's jobs in the order of a claim, where it is not chosen
    groups_by_sorting: bool = False  # and in this process, so that a dictionary groups many rows faster
    no_limits: tuple[str, ...] = ()  # statements that lift every limit of a session
    limits_end_with_transaction: bool = True  # so that lifting them affects no other transaction
    fresh_plans: str = ""  # makes the statements of a transaction be planned anew each time
    arrays: bool = False  # all values of a column can be one parameter, read as rows by unnest
    lateral: bool = False  # a subquery in FROM may name a table that stands before it
    # rows of a catch-all that are given a partition of their own while a lock keeps writers waiting less than a second
    moved_at_most: int = 0
    # the numbers of the first transaction that begins after now, and of the first that has not ended; empty where job
    # numbers are committed in their order, or can be read before they are
    next_transaction: str = ""
    first_open_transaction: str = ""
    # asks for table, name and bounds of the partitions of a table: two numbers, the upper one or none; empty: has none
    partitions: str = ""

    def rows_from_json(self, **columns: type[int | str]) -> str:
        """Return SQL that reads the JSON list of lists ``:rows`` as rows ``v`` with these columns."""
        number, words = self.json_column
        parts = [
            (number if kind is int else words).format(index=index, name=name)
            for index, (name, kind) in enumerate(columns.items())
        ]
        return self.json_rows.format(columns=", ".join(parts))


SQLITE = Dialect(
    name="sqlite",
    partial_indexes=True,
    locking="",
    waiting_lock="",
    brief_lock="",
    shared_lock="",
    brief_lock_settings=(),
    insert_ignore=("INSERT INTO", "ON CONFLICT DO NOTHING"),
    placeholder="?",
    shares_clock=False,
    transactional_ddl=True,
    json_as_text="{}",
    rows_need_values=True,
    last_number="SELECT last_insert_rowid()",
    position_function="instr",
    bytes_position="instr",
    json_rows="(SELECT {columns} FROM json_each(:rows) AS e) AS v",
    json_column=("json_extract(e.value, '$[{index}]') AS {name}", "json_extract(e.value, '$[{index}]') AS {name}"),
    update_from="UPDATE {table} SET {values} FROM {rows} WHERE {condition}",
    upsert=("WHERE true ON CONFLICT ({key}) DO UPDATE SET", "excluded.{name}"),
    time_micros="NULL",
    groups_by_sorting=True,
    drawn_number="SELECT seq FROM sqlite_sequence WHERE name = '{table}'",
    continue_after=(
        "DELETE FROM sqlite_sequence WHERE name = '{table}'",
        "INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', {number})",
    ),
)
POSTGRES = Dialect(
    name="postgresql",
    partial_indexes=True,
    locking=" FOR UPDATE SKIP LOCKED",
    waiting_lock=" FOR UPDATE",
    brief_lock=" FOR UPDATE",
    shared_lock=" FOR SHARE OF v",
    brief_lock_settings=("SET LOCAL lock_timeout = '500ms'",),
    insert_ignore=("INSERT INTO", "ON CONFLICT DO NOTHING"),
    placeholder="%s",
    shares_clock=True,
    transactional_ddl=True,
    json_as_text="{}::text",
    rows_need_values=False,
    last_number="",
    position_function="strpos",
    bytes_position='pg_catalog."position"',
    json_rows="(SELECT {columns} FROM json_array_elements(CAST(:rows AS json)) AS e) AS v",
    json_column=("CAST(e ->> {index} AS bigint) AS {name}", "e ->> {index} AS {name}"),
    update_from="UPDATE {table} SET {values} FROM {rows} WHERE {condition}",
    upsert=("WHERE true ON CONFLICT ({key}) DO UPDATE SET", "excluded.{name}"),
    time_micros="(extract(epoch from clock_timestamp()) * 1000000)::bigint",
    drawn_number="SELECT pg_sequence_last_value(pg_get_serial_sequence('{table}', 'id')::regclass)",
    continue_after=("SELECT setval(pg_get_serial_sequence('{table}', 'id'), {number})",),
    snapshot="REPEATABLE READ",
    no_limits=(
        "SET LOCAL statement_timeout = 0",
        "SET LOCAL lock_timeout = 0",
        "SET LOCAL idle_in_transaction_session_timeout = 0",
    ),
    arrays=True,
    fresh_plans="SET LOCAL plan_cache_mode = force_custom_plan",
    lateral=True,
    next_transaction="SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
    first_open_transaction="SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
    moved_at_most=300_000,  # they are read, not copied
    partitions=(
        "SELECT '{table}', substr(c.relname, length('{table}') + 2), pg_get_expr(c.relpartbound, c.oid) "
        "FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('{table}')"
    ),
)
MYSQL = Dialect(
    name="mysql",
    partial_indexes=False,
    locking=" FOR UPDATE SKIP LOCKED",
    waiting_lock=" FOR UPDATE",
    brief_lock=" FOR UPDATE /*M!100300 WAIT 1 */",
    shared_lock=" LOCK IN SHARE MODE",
    brief_lock_settings=(),
    insert_ignore=("INSERT IGNORE INTO", ""),
    placeholder="%s",
    shares_clock=True,
    transactional_ddl=False,
    json_as_text="{}",
    rows_need_values=False,
    last_number="",
    position_function="instr",
    bytes_position="instr",
    json_rows="JSON_TABLE(:rows, '$[*]' COLUMNS ({columns})) AS v",
    json_column=("{name} BIGINT PATH '$[{index}]'", "{name} VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[{index}]'"),
    update_from="UPDATE {rows} STRAIGHT_JOIN {table} SET {values} WHERE {condition}",
    upsert=("ON DUPLICATE KEY UPDATE", "VALUES({name})"),
    held_for_slot="1",
    unsealed_line="1",  # without a partial index only a walk over all lanes could tell
    unsealed_index=" FORCE INDEX (horae_audit_chain)",
    forced_index="FORCE INDEX ({index})",
    owned_index=" FORCE INDEX (horae_jobs_owned)",
    time_micros="TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
    drawn_number="SELECT auto_increment FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND table_name = '{table}'",
    continue_after=("ALTER TABLE {table} AUTO_INCREMENT = {number}",),
    snapshot="REPEATABLE READ",
    no_limits=(
        "SET SESSION innodb_lock_wait_timeout = 3600"
        "/*M!100300 , SESSION idle_transaction_timeout = 0, SESSION max_statement_time = 0 */",
    ),
    limits_end_with_transaction=False,
    moved_at_most=20_000,  # they are copied
    partitions=(
        "SELECT '{table}', partition_name, partition_description FROM information_schema.partitions "
        "WHERE table_schema = DATABASE() AND table_name = '{table}' AND partition_name IS NOT NULL"
    ),
)
BY_NAME = {"sqlite": SQLITE, "postgresql": POSTGRES, "mysql": MYSQL, "mariadb": MYSQL}
