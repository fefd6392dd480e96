"""The rules of `md audit`: each is one function; this is their registry."""

from blklab.diagnostic import Diagnostic
from blklab.md.audit import absent, alignment, bad_blocks, devices, host, metadata, redundancy, smart
from blklab.md.audit.rule import Rule
from blklab.md.model import Inventory

RULES: tuple[Rule, ...] = (  # In the order in which findings of one severity are printed
    redundancy.check_broken,
    *(bad_blocks.check_repair, bad_blocks.check_lost_ranges, bad_blocks.check_entries),
    *(bad_blocks.check_copied_entries, bad_blocks.check_full_lists, bad_blocks.check_write_errors),
    *(bad_blocks.check_kernel_lists, bad_blocks.check_empty_entries, bad_blocks.check_empty_lists),
    *(bad_blocks.check_no_lists, host.check_add),
    *(redundancy.check_inactive, redundancy.check_suspended_writes, redundancy.check_unfinished_repair),
    *(redundancy.check_degraded, redundancy.check_faulty, redundancy.check_event_counts),
    *(redundancy.check_duplicate_slots, redundancy.check_unfinished_sync, redundancy.check_sync_action),
    *(redundancy.check_bitmap, redundancy.check_missing_images),
    *(metadata.check_checksum, metadata.check_superblock, metadata.check_old_superblocks),
    *(metadata.check_foreign_metadata, metadata.check_shapes, metadata.check_metadata_version),
    *(redundancy.check_mismatches, redundancy.check_schedule),
    *(devices.check_mixed_kinds, devices.check_unequal_latency, devices.check_read_errors),
    *(devices.check_layout, devices.check_write_mostly),
    *(alignment.check_data_offset, alignment.check_partitions, alignment.check_filesystems),
)


def find_problems(inventory: Inventory) -> list[Diagnostic]:
    """Returns what all rules find, the worst first. Reads and changes nothing."""
    software = inventory.software
    diagnostics = list(absent.check_absent(inventory))  # An array that is not there is the worst
    diagnostics += [finding for rule in RULES for array in inventory.arrays for finding in rule(array, software)]
    diagnostics += host.check_host(inventory)
    diagnostics += smart.check_disks(inventory)
    return sorted(diagnostics, key=lambda diagnostic: diagnostic.rank)
