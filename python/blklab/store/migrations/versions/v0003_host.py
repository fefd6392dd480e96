"""The host that measured a campaign."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds `host` to the campaigns; it is unknown for those of older versions."""
    op.add_column("campaigns", sa.Column("host", sa.String))
