"""Rules about multipath devices as members of arrays, and about their paths in place of them."""

from collections.abc import Iterator
from itertools import combinations

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import list_names, make_finding
from blklab.md.model import Array, Software


def check_multipath(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Members are multipath devices: the disks sdX below them are their paths, and not members."""
    names = [f"{member.name} ({member.multipath})" for member in array.members if member.multipath]
    if names:
        message = (
            f"has multipath devices as members: {list_names(names)}. The disks below them are their paths: "
            "`multipath -ll` lists them. Never add such a disk to the array"
        )
        yield make_finding(array, "note", "multipath", message)


def check_paths(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A member is a path of a multipath device: the array does not use the other paths."""
    for member in array.members:
        if member.path_of:
            message = (
                f"is a path of the multipath device {member.path_of}, which the array does not use: if this path "
                "fails, md fails the member, although its disk is reachable by other paths. "
                "Stop the array, let multipathd take all paths, and assemble the array from the multipath devices"
            )
            yield make_finding(array, "warning", "multipath-path", message, member=member.name)


def check_same_disks(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Two members are on disks with the same WWN: they are paths of one disk, and not two copies."""
    members = [member for member in array.members if member.wwn and "faulty" not in member.states]
    for one, other in combinations(members, 2):
        if one.wwn == other.wwn and one.disk != other.disk:
            message = (
                f"{one.name} and {other.name} have the same WWN (0x{one.wwn}): they are two paths of one disk, "
                "and if it fails, both are lost. Some USB enclosures give all their disks one WWN: "
                "then compare the serial numbers (smartctl)"
            )
            yield make_finding(array, "critical", "same-disk", message)
