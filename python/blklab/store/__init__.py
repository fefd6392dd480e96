"""Where every result is kept, whichever runner it came from: SQLite, or a PostgreSQL server."""
