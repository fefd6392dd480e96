"""What the slot of a disk carries: a fast disk in an old or a narrow slot is as fast as the slot."""

import re
from collections.abc import Mapping
from typing import Any

LINK = re.compile(r"([1-6])x(1|2|4|8|16)", re.A)
"""The generation of PCIe and the number of lanes."""

LANE_BYTES = {1: 250e6, 2: 500e6, 3: 985e6, 4: 1_969e6, 5: 3_938e6, 6: 7_563e6}
"""Bytes per second of a lane by generation: transfers per second without the code of the line (PCI Express Base
Specification, 8b/10b up to 2, 128b/130b up to 5)."""

PAYLOAD = 0.9
"""The share of the bytes that are data. Packets carry 256 bytes with 24 to 28 bytes of headers."""

BANDWIDTHS = ("read_bandwidth", "write_bandwidth", "sustained_read_bandwidth", "sustained_write_bandwidth")


def link_bandwidth(link: str) -> int | None:
    """Returns the bytes per second that a link such as `3x4` carries in each direction; None if it is not one."""
    match = LINK.fullmatch(link)
    if match is None:
        return None
    return round(PAYLOAD * LANE_BYTES[int(match[1])] * int(match[2]))


def limit_to_link(table: Mapping[str, Any], link: object) -> dict[str, Any]:
    """Returns a disk's table with no more bandwidth than its link has; `link` is as in an experiment file."""
    limit = link_bandwidth(link) if isinstance(link, str) else None
    result = dict(table)
    if limit is not None and table.get("kind") == "nvme":
        for key in BANDWIDTHS:
            if key in result:
                result[key] = min(result[key], limit)
    return result
