"""The store of all results, of any runner: SQLite, or a PostgreSQL server."""
