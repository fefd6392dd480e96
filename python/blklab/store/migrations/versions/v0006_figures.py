"""The figures that lists need, in columns, and an index for their counts."""

from alembic import op

from blklab.store.figures import fill_figures
from blklab.store.tables import figures

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Makes the table, and fills it; adds the index that counts states."""
    figures.create(op.get_bind())
    fill_figures(op.get_bind())
    op.create_index("states_of_a_campaign", "runs", ["campaign", "state", "owner"])
