"""Series are in the store itself: every machine that uses it sees them, and a copy of it is complete.

`blklab.store.database` adds the files that older versions wrote.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "series",
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("points", sa.LargeBinary, nullable=False),
    )
    op.drop_column("runs", "series")
