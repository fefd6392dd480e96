"""Characterise traces that do not fit one machine: many shards, merged as a tree."""

from blklab.trace.shards.listing import Shard, are_shards, list_shards
from blklab.trace.shards.merging import ShardProfiles, characterise_shards
from blklab.trace.shards.task import TraceOptions

__all__ = ["Shard", "ShardProfiles", "TraceOptions", "are_shards", "characterise_shards", "list_shards"]
