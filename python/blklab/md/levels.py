"""md's levels and what is true of their arrays, by the name in sysfs: crates/md, `LEVELS`."""

import json

from blklab._core import md_levels

LEVELS: dict[str, dict[str, int]] = {facts.pop("level"): facts for facts in json.loads(md_levels())}
PARITIES: dict[str, int] = {name: facts["parities"] for name, facts in LEVELS.items() if facts["parities"]}
"""Chunks of parity in each stripe."""

REDUNDANT = frozenset(name for name, facts in LEVELS.items() if facts["redundant"])  # Tolerate a lost member
STRIPED = frozenset(name for name, facts in LEVELS.items() if facts["has_chunk"])
NUMBERS: dict[int, str] = {facts["number"]: name for name, facts in LEVELS.items()}  # In superblocks

PARITY_LAYOUTS: dict[str, int] = {
    "left-asymmetric": 0,
    "right-asymmetric": 1,
    "left-symmetric": 2,
    "right-symmetric": 3,
    "parity-first": 4,
    "parity-last": 5,
    "left-asymmetric-6": 16,
    "right-asymmetric-6": 17,
    "left-symmetric-6": 18,
    "right-symmetric-6": 19,
    "parity-first-6": 20,
}
"""Layouts of RAID-5 and 6, by mdadm's names (drivers/md/raid5.h). Those with -6 are RAID-6 with Q on the last disk: a
RAID-5 that becomes a RAID-6, or the other way round."""

_PARITY_LAYOUT_NAMES = {number: name for name, number in PARITY_LAYOUTS.items()}


def layout_name(level: str, layout: int) -> str:
    """Returns a layout as mdadm names it; empty for levels without layouts, and for a number that has no name."""
    if level == "raid10":
        near = layout & 0xFF
        far = layout >> 8 & 0xFF
        has_offset = layout >> 16 & 1
        if far <= 1:
            return f"near={near}"
        name = f"offset={far}" if has_offset else f"far={far}"
        return f"{name} near={near}" if near > 1 else name
    return _PARITY_LAYOUT_NAMES.get(layout, "") if level in {"raid5", "raid6"} else ""
