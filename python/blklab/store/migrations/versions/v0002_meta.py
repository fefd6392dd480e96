"""A name of the store's own, so that no two share a directory of series."""

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes the table with its only row."""
    meta = op.create_table("meta", sa.Column("store", sa.String, primary_key=True))
    op.bulk_insert(meta, [{"store": str(uuid4())}])
