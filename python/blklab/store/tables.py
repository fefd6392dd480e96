"""The present tables of the store; `migrations/versions` makes and changes them."""

import sqlalchemy as sa
from sqlalchemy import JSON, Column, ForeignKey, Integer, String

KNOWN = ("0001", "0002", "0003", "0004", "0005", "0006")  # The migrations, oldest first
REVISION = KNOWN[-1]  # The newest migration: an older store is migrated, a newer one refused
STATES = ("planned", "running", "done", "failed")  # The states of a run, in order
metadata = sa.MetaData()

campaigns = sa.Table(
    "campaigns",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False, index=True),
    Column("title", String, nullable=False),
    Column("runner", String, nullable=False),
    # What cells it has: two campaigns with one digest can be compared cell by cell, or resumed.
    Column("digest", String, nullable=False, index=True),
    Column("path", String, nullable=False),
    Column("experiment", JSON, nullable=False),
    Column("version", String, nullable=False),
    Column("created", String, nullable=False),
    # The name of the machine that measured it; none for predictions and imports.
    Column("host", String),
    sqlite_autoincrement=True,  # a number is never given twice
)

environments = sa.Table(
    "environments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", String, nullable=False, unique=True),
    Column("document", JSON, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("campaign", ForeignKey("campaigns.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("key", String, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("cell", JSON, nullable=False),
    Column("state", String, nullable=False),
    # The process that runs it: `blklab.store.campaigns`.
    Column("owner", String),
    Column("environment", ForeignKey("environments.id")),
    Column("started", String),
    Column("finished", String),
    Column("seconds", sa.Float),
    Column("outcome", JSON(none_as_null=True)),
    # What the program said that measured it, zlib.
    Column("raw", sa.LargeBinary),
    Column("message", String),
    sa.UniqueConstraint("campaign", "key"),
    sa.Index("runs_of_a_campaign", "campaign", "number"),
    # Lists count states, and must not read the rows: an outcome is large.
    sa.Index("states_of_a_campaign", "campaign", "state", "owner"),
    sqlite_autoincrement=True,
)

series = sa.Table(
    "series",
    metadata,
    Column("run", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("points", sa.LargeBinary, nullable=False),  # Parquet: `blklab.store.series`
)

figures = sa.Table(  # What lists need of the runs that are done, so that they read no outcomes
    "figures",
    metadata,
    Column("run", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("campaign", ForeignKey("campaigns.id", ondelete="CASCADE"), nullable=False),
    Column("cell", String, nullable=False),  # The labels without the repeat: `blklab.store.figures`
    Column("iops", sa.Float, nullable=False),  # Reads and writes together
    Column("wall_ns", sa.Float),  # Mean time of a command; none for I/O
    Column("is_known", sa.Boolean, nullable=False),  # Not if it is predicted with an interval that is too wide
    sa.Index("figures_of_a_campaign", "campaign", "cell"),
)

documents = sa.Table(
    "documents",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", String, nullable=False),  # `audit` of a host, `profile` of a trace
    Column("name", String, nullable=False),  # The host, or the name that the user gave
    Column("created", String, nullable=False),
    Column("document", JSON, nullable=False),  # docs/reference/formats.md
    sa.Index("documents_by_name", "kind", "name"),
    sqlite_autoincrement=True,
)

annotations = sa.Table(
    "annotations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("campaign", ForeignKey("campaigns.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String, nullable=False),  # `tag` or `note`
    Column("text", String, nullable=False),
    Column("author", String, nullable=False),  # The user who wrote it, as the system names them
    Column("created", String, nullable=False),
    sa.Index("annotations_of_a_campaign", "campaign"),
    sqlite_autoincrement=True,
)

meta = sa.Table(
    "meta",
    metadata,
    # What tells this store from all others: a UUID, in the only row.
    Column("store", String, primary_key=True),
)
