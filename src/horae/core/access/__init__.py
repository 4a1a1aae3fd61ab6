"""Access: who calls, which tenant, which secrets."""
