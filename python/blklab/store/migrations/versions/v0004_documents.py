"""Documents that are kept next to runs (audits, profiles of traces), and tags and notes of users."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "documents",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("created", sa.String, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("documents_by_name", "documents", ["kind", "name"])
    op.create_table(
        "annotations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("campaign", sa.Integer, sa.ForeignKey("campaigns.id", ondelete="CASCADE"), nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("text", sa.String, nullable=False),
        sa.Column("author", sa.String, nullable=False),
        sa.Column("created", sa.String, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("annotations_of_a_campaign", "annotations", ["campaign"])
