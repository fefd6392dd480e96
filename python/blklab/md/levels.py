"""md's levels and what is true of their arrays, by the name in sysfs: crates/md, `LEVELS`."""

import json

from blklab._core import md_levels

LEVELS: dict[str, dict[str, int]] = {facts.pop("level"): facts for facts in json.loads(md_levels())}
PARITIES: dict[str, int] = {name: facts["parities"] for name, facts in LEVELS.items() if facts["parities"]}
"""Chunks of parity in each stripe."""

REDUNDANT = frozenset(name for name, facts in LEVELS.items() if facts["redundant"])  # Tolerate a lost member
STRIPED = frozenset(name for name, facts in LEVELS.items() if facts["has_chunk"])
NUMBERS: dict[int, str] = {facts["number"]: name for name, facts in LEVELS.items()}  # In superblocks
