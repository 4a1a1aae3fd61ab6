"""Let the routine of PostgreSQL empty a catch-all of any size: prove its range beside the work, then swap it.

Revision ID: 0008_catch_all
Revises: 0007_labels

The routine as it was in the baseline, with four verbs more: bound, confirm, take and release.
"""

from __future__ import annotations

from alembic import op

revision = "0008_catch_all"
down_revision = "0007_labels"
branch_labels = None
depends_on = None

# bound    give the catch-all a CHECK for a range, without reading its rows
# confirm  read them beside the work
# take     make the catch-all the partition of that range, and an empty table the catch-all
# release  take the CHECK away, so that the catch-all takes every row again
ROUTINE = """
CREATE OR REPLACE FUNCTION {schema}.horae_partition(
    verb text, parent text, name text, low bigint, high bigint, patience text
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $body$
DECLARE
    part text := parent || '_' || name;
    rest text := parent || '_rest';
    past text := parent || '_old';
    ordered text := CASE parent WHEN 'horae_runs' THEN 'finished_at' ELSE 'fire_at' END;
    made text;
    rule record;
    known record;
BEGIN
    IF parent NOT IN ('horae_runs', 'horae_fires') OR name !~ '^(p[0-9]{{8}}|old|rest)$' THEN
        RAISE EXCEPTION 'horae_partition: % is no partition of Horae', part;
    END IF;
    IF NOT has_table_privilege(session_user, parent, 'DELETE') THEN
        RAISE EXCEPTION 'permission denied for table %', parent USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM set_config('lock_timeout', patience, true);
    IF verb = 'release' THEN
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT IF EXISTS horae_range', rest);
        RETURN true;
    END IF;
    PERFORM pg_advisory_xact_lock(4715113083);
    SELECT convalidated AS confirmed, pg_get_constraintdef(oid) ~ format('\\m%s\\M.*\\m%s\\M', low, high) AS fits
        INTO known FROM pg_constraint WHERE conrelid = rest::regclass AND conname = 'horae_range';
    IF verb = 'add' THEN
        IF to_regclass(part) IS NOT NULL THEN
            RETURN false;
        END IF;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', part, parent);
        made := part;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, low, high);
    ELSIF verb = 'split' THEN
        IF to_regclass(part) IS NOT NULL THEN
            RETURN false;
        END IF;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, rest);
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT IF EXISTS horae_range', rest);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', rest, part);
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', rest, parent);
        EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I >= %s OR %I < %s RETURNING *) '
            'INSERT INTO %I SELECT * FROM moved', part, ordered, high, ordered, low, rest);
        made := rest;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, low, high);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I DEFAULT', parent, rest);
    ELSIF verb = 'bound' THEN
        IF known.fits THEN
            RETURN false;
        END IF;
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT IF EXISTS horae_range, ADD CONSTRAINT horae_range '
            'CHECK (%I >= %s AND %I < %s) NOT VALID', rest, ordered, low, ordered, high);
    ELSIF verb = 'confirm' THEN
        IF known.fits IS NOT TRUE OR known.confirmed THEN
            RETURN false;
        END IF;
        EXECUTE format('ALTER TABLE %I VALIDATE CONSTRAINT horae_range', rest);
    ELSIF verb = 'take' THEN
        IF known.fits IS NOT TRUE OR NOT known.confirmed OR to_regclass(part) IS NOT NULL THEN
            RETURN false;
        END IF;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, rest);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', rest, part);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, low, high);
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT horae_range', part);
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', rest, parent);
        made := rest;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I DEFAULT', parent, rest);
    ELSIF verb = 'drop' THEN
        IF to_regclass(part) IS NULL OR name IN ('old', 'rest') THEN
            RETURN false;
        END IF;
        EXECUTE format('DROP TABLE %I', part);
        EXECUTE 'DELETE FROM horae_counted_partitions WHERE table_name = $1 AND name = $2' USING parent, name;
        IF pg_get_expr((SELECT relpartbound FROM pg_class WHERE oid = past::regclass), past::regclass)
            ~ format('TO \\(''?%s''?\\)', low) THEN
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, past);
            EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I < %s RETURNING *) '
                'INSERT INTO %I SELECT * FROM moved', rest, ordered, high, past);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%s)', parent, past, high);
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT IF EXISTS horae_bound, '
                'ADD CONSTRAINT horae_bound CHECK (%I < %s) NOT VALID', past, ordered, high);
        END IF;
    ELSIF verb = 'validate' THEN
        EXECUTE format('ALTER TABLE %I VALIDATE CONSTRAINT horae_bound', past);
    ELSE
        RAISE EXCEPTION 'horae_partition: unknown verb %', verb;
    END IF;
    IF made IS NOT NULL AND (SELECT relrowsecurity FROM pg_class WHERE oid = parent::regclass) THEN
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', made);
        FOR rule IN SELECT p.policyname, p.qual, p.with_check FROM pg_policies p
            WHERE p.schemaname = current_schema() AND p.tablename = parent LOOP
            EXECUTE format('CREATE POLICY %I ON %I USING (%s) WITH CHECK (%s)',
                rule.policyname, made, rule.qual, rule.with_check);
        END LOOP;
    END IF;
    RETURN true;
END $body$
"""


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
        connection.exec_driver_sql(ROUTINE.format(schema=schema).replace("%", "%%"))


def downgrade() -> None:
    """Leave the routine: what it did before it still does."""
