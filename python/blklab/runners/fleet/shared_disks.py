"""Refuses disks to which two hosts would write."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from blklab.errors import BlklabError
from blklab.printing import printable
from blklab.system.identity import normal

SHARED = "shared-device"  # The condition that two hosts write to the same disk


def refuse_shared(written: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Raises BlklabError for a disk to which two hosts write: `written` has its ids, by host and target."""
    for (host, theirs), (other, others) in combinations(written.items(), 2):
        known = {normal(id_) for ids in others.values() for id_ in ids}
        for target, ids in theirs.items():
            if same := [id_ for id_ in ids if normal(id_) in known]:
                raise BlklabError(
                    f"{host} and {other}: target {target}: found {printable(same[0])} on both, expected one writer "
                    f"for each disk: only read it, or use a directory; if these are two disks, add --force {SHARED}"
                )
