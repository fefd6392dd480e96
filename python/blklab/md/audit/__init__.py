"""What is wrong or risky with arrays: one small function a rule, and here their registry."""

from typing import Final

from blklab.diagnostic import Diagnostic
from blklab.md.audit import (
    alignment,
    bad_blocks,
    devices,
    host,
    metadata,
    redundancy,
    scrubbing,
    smart,
)
from blklab.md.audit.rule import AuditedHost, Rule
from blklab.md.model import Inventory

__all__ = ["RULES", "findings"]

RULES: Final[tuple[Rule, ...]] = (
    bad_blocks.repair,
    bad_blocks.lost,
    bad_blocks.entries,
    bad_blocks.copied,
    bad_blocks.full,
    bad_blocks.states,
    bad_blocks.disagreement,
    bad_blocks.zeros,
    bad_blocks.empty,
    bad_blocks.none,
    host.add_fails,
    redundancy.inactive,
    redundancy.suspended,
    redundancy.repairing,
    redundancy.degraded,
    redundancy.faulty,
    redundancy.events,
    redundancy.claims,
    redundancy.unclean,
    redundancy.under_way,
    redundancy.no_bitmap,
    redundancy.absent,
    metadata.checksum,
    metadata.damage,
    metadata.leftovers,
    metadata.others,
    metadata.disagreement,
    metadata.version,
    scrubbing.mismatches,
    scrubbing.never,
    devices.mixed,
    devices.unequal,
    devices.errors,
    devices.layout,
    devices.write_mostly,
    alignment.data,
    alignment.partitions,
    alignment.filesystems,
)
"""In the order in which findings of one severity are told."""


def findings(inventory: Inventory) -> list[Diagnostic]:
    """Returns what all rules find, the worst first; nothing is read and nothing changed."""
    known = AuditedHost(inventory.software)
    diagnostics = [
        finding for rule in RULES for array in inventory.arrays for finding in rule(array, known)
    ]
    diagnostics += host.whole_machine(inventory)
    diagnostics += smart.disks(inventory)
    return sorted(diagnostics, key=lambda diagnostic: diagnostic.rank)
