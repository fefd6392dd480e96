"""Characterise traces that do not fit one machine: many shards, merged as a tree, or one trace in pieces."""

from blklab.trace.shards.listing import Shard, are_shards, list_shards
from blklab.trace.shards.merging import ShardProfiles, characterise_shards
from blklab.trace.shards.task import TraceOptions, characterise_pieces

__all__ = [
    "Shard",
    "ShardProfiles",
    "TraceOptions",
    "are_shards",
    "characterise_pieces",
    "characterise_shards",
    "list_shards",
]
