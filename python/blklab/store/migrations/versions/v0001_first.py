"""The first tables: campaigns, environments, runs."""

import sqlalchemy as sa
from alembic import op

from blklab.store.tables import environments

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "campaigns",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("runner", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("experiment", sa.JSON, nullable=False),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("created", sa.String, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_campaigns_name", "campaigns", ["name"])
    op.create_index("ix_campaigns_digest", "campaigns", ["digest"])
    environments.create(op.get_bind())  # It has not changed since
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("campaign", sa.Integer, sa.ForeignKey("campaigns.id", ondelete="CASCADE"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("cell", sa.JSON, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("owner", sa.String),
        sa.Column("environment", sa.Integer, sa.ForeignKey("environments.id")),
        sa.Column("started", sa.String),
        sa.Column("finished", sa.String),
        sa.Column("seconds", sa.Float),
        sa.Column("outcome", sa.JSON),
        sa.Column("raw", sa.LargeBinary),
        sa.Column("series", sa.String),
        sa.Column("message", sa.String),
        sa.UniqueConstraint("campaign", "key"),
        sqlite_autoincrement=True,
    )
    op.create_index("runs_of_a_campaign", "runs", ["campaign", "number"])
