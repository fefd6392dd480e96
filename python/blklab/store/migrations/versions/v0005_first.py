"""The tables of blklab 0.2.0: `blklab.store.database` makes those of a new store as they are now, without steps."""

revision = "0005"
down_revision = None
