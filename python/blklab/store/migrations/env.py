"""Alembic's entry: it works on the connection that `blklab.store.database` gives it."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True, render_as_batch=True)
context.run_migrations()
