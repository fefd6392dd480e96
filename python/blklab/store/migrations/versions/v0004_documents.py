"""Documents that are kept next to runs (audits, profiles of traces), and tags and notes of users."""

from alembic import op

from blklab.store.tables import annotations, documents

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Makes the tables, which have not changed since."""
    documents.create(op.get_bind())
    annotations.create(op.get_bind())
