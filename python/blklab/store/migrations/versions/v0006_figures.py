"""The figures that lists need, in columns."""

from alembic import op

from blklab.store.figures import fill_figures
from blklab.store.tables import figures

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Makes the table, and fills it."""
    figures.create(op.get_bind())
    fill_figures(op.get_bind())
