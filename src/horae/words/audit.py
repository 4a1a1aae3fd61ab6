"""The sentences about the audit: what is wrong with its chains and with how the database guards it, by reason."""

ERRORS = {
    "audit_head_unreadable": "A head kept elsewhere is written OWNER=HASH, with the 64 hexadecimal digits that "
    "`horae audit verify` or `horae audit export` printed, not {head!r}.",
    "audit_heads_differ": "Two different heads were given for the owner {owner}. Give one.",
    "export_exists": "{path} is there already. Choose another name, or add --force to replace it.",
    "export_file_alone": "--file checks the file alone, without a database or a service; leave out {option}.",
    "export_missing": "There is no file at {path}. Check the name.",
    "export_unreadable": "{path} cannot be read: {problem}. Check the file and its permissions.",
    "export_unwritable": "{path} cannot be written: {problem}. Check the folder and its permissions.",
}
# What the verification of a chain, or of an exported file, may find.
COMPLAINTS = {
    "chain_ends_elsewhere": "the chain should end at entry {expected} of this owner; it ends at {found}",
    "chain_head_differs": "the chain should end with the hash {expected}; it ends with {found}",
    "chain_missing": "there is no chain of this owner, although a head of it was kept elsewhere",
    "chain_repeated": "line {line}: the chain of {owner} begins a second time",
    "chain_unfinished": "the chain has no closing line: the file was cut off, or lines were removed",
    "entries_missing": "before entry {id}: {count} entries are missing",
    "entry_changed": "entry {id} was changed, or moved, after it was sealed",
    "entry_out_of_order": "entry {id} is number {seq} of the chain, and stands after number {after}",
    "file_counts_differ": "the file should hold {chains} chains with {entries} entries; it holds {found_chains} with "
    "{found_entries}",
    "file_goes_on": "line {line}: there is more behind the end of the export",
    "file_has_no_header": "the file does not begin with the header of an export of the audit",
    "file_unfinished": "the file has no last line of an export: it was cut off",
    "file_version_unknown": "the file has version {version} of the format; this Horae reads version {known}",
    "kept_head_unknown": "the head {head} that was kept elsewhere is not in this chain: entries were removed from its "
    "end, or the chain was written anew",
    "line_unreadable": "line {line} is not a line of an export",
}
# What can be done to the audit where a part of its guard is missing, by the name of the part in the database.
GUARD_PARTS = {
    "horae_audit_no_change": "entries can be changed",
    "horae_audit_no_delete": "entries can be deleted",
    "horae_audit_no_replace": "entries can be replaced",
    "horae_audit_no_truncate": "the audit can be truncated",
    "horae_audit_guard_entry": "the audit can be truncated",
}
# How the database guards the audit, and what to do where it does not.
GUARD = {
    "audit_guarded": "the database refuses to change or delete entries",
    "audit_unguarded": "The database does not guard the audit: {harm}, and only a verification would show it. Missing: "
    "{missing}.",
    "guard_invisible": "Whether the database guards the audit cannot be seen: this role may neither see nor create "
    "triggers.",
    "guard_advice": "horae db migrate  (with a role that may create triggers and foreign keys: GRANT TRIGGER, "
    "REFERENCES; on MariaDB with a binary log also log_bin_trust_function_creators = 1)",
}
WHY = {**COMPLAINTS, **GUARD}
# What was done, by the verb of an entry.
VERBS = {
    "activate": "activated",
    "backfill": "backfilled",
    "cancel": "cancelled",
    "change": "changed",
    "clean": "cleaned up",
    "close": "closed to tenants",
    "create": "created",
    "deactivate": "deactivated",
    "dead": "given up",
    "declare": "declared",
    "delete": "deleted",
    "disable": "disabled",
    "enable": "enabled",
    "finish": "finished",
    "import": "imported",
    "limit": "limited",
    "move": "moved to new times",
    "open": "opened to tenants",
    "order": "ordered",
    "pause": "paused",
    "put": "stored",
    "release": "released",
    "repair": "repaired",
    "rerun": "run again",
    "reschedule": "rescheduled",
    "reseal": "sealed with another key",
    "restore": "restored from a copy",
    "resume": "resumed",
    "revive": "revived",
    "revoke": "revoked",
    "rotate": "rotated",
    "set": "set",
    "set_retention": "set how long runs are kept",
    "start": "started",
    "toggle": "switched for now",
    "trigger": "triggered",
}
