"""Series are in the store itself: every machine that uses it sees them, and a copy of it is complete."""

import sqlalchemy as sa
from alembic import context, op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Makes the table, and takes over the Parquet files of older versions."""
    series = op.create_table(
        "series",
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("points", sa.LargeBinary, nullable=False),
    )
    connection = op.get_bind()
    directory = context.config.attributes["series"]
    if connection.dialect.name != "sqlite":  # Stores of a server had a directory each
        directory /= connection.execute(sa.text("select store from meta")).scalar_one()
    runs = connection.execute(sa.text("select id, series from runs where series is not null")).all()
    for run, name in runs:
        if (path := directory / name).is_file():  # The store may have been copied without them
            op.bulk_insert(series, [{"run": run, "points": path.read_bytes()}])
    op.drop_column("runs", "series")
    context.config.attributes["taken_over"].extend(directory / name for _, name in runs)
