"""Series are in the store itself: every machine that uses it sees them, and a copy of it is complete.

`blklab.store.database` adds the files that older versions wrote.
"""

from alembic import op

from blklab.store.tables import series

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Makes the table, which has not changed since."""
    series.create(op.get_bind())
    op.drop_column("runs", "series")
