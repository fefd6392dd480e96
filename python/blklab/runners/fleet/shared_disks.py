"""Refuses disks to which two hosts would write."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from blklab.errors import BlklabError
from blklab.system.identity import normal
from blklab.text.printing import printable

SHARED = "shared-device"  # The condition that two hosts write to the same disk


def refuse_shared(written: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Raises BlklabError for a disk to which two hosts write: `written` has its ids, by host and target."""
    for (host, host_ids), (other, other_ids) in combinations(written.items(), 2):
        other_names = {normal(disk_id) for ids in other_ids.values() for disk_id in ids}
        for target, ids in host_ids.items():
            if common := [disk_id for disk_id in ids if normal(disk_id) in other_names]:
                raise BlklabError(
                    f"{host} and {other}: target {target}: found {printable(common[0])} on both, expected one writer "
                    f"for each disk: only read it, or use a directory; if these are two disks, add --force {SHARED}"
                )
