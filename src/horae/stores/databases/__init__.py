"""SQLite, PostgreSQL and MariaDB: their connections, their statements, and how they differ."""
