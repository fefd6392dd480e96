"""The rules of `md audit`: each is one function; this is their registry."""

from collections.abc import Iterable
from dataclasses import replace

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit import (
    absent,
    alignment,
    bad_blocks,
    bitmap_page,
    containers,
    devices,
    host,
    kernel_bugs,
    log,
    metadata,
    mismatches,
    multipath,
    redundancy,
    reshape,
    running,
    smart,
    split,
    write_journal,
)
from blklab.md.audit.rule import Rule
from blklab.md.model import Array, Inventory
from blklab.text.printing import printable

RULES: tuple[Rule, ...] = (  # In the order in which findings of one severity are printed
    *(running.check_cannot_run, running.check_dropped, redundancy.check_broken, bad_blocks.check_only_outside),
    *(
        bad_blocks.check_unseen_lists,
        bad_blocks.check_garbage,
        bad_blocks.check_copied_entries,
        bad_blocks.check_repair,
    ),
    *(bad_blocks.check_lost_ranges, bad_blocks.check_entries),
    *(bad_blocks.check_full_lists, bad_blocks.check_write_errors),
    *(bad_blocks.check_kernel_lists, bad_blocks.check_empty_entries, bad_blocks.check_empty_lists),
    *(bad_blocks.check_no_lists, host.check_add),
    *(write_journal.check_write_journal, reshape.check_reshape, reshape.check_growing_raid0),
    *(running.check_inactive, redundancy.check_suspended_writes, redundancy.check_unfinished_repair),
    *(redundancy.check_degraded, redundancy.check_faulty, redundancy.check_event_counts),
    *(redundancy.check_duplicate_slots, redundancy.check_unfinished_sync, redundancy.check_sync_action),
    reshape.check_stalled_sync,
    *(redundancy.check_bitmap, redundancy.check_member_bitmaps, bitmap_page.check_bitmap_page),
    redundancy.check_missing_images,
    *(metadata.check_checksum, metadata.check_superblock, metadata.check_old_superblocks),
    *(containers.check_stopped_volume, containers.check_container, containers.check_unused_disks),
    *(multipath.check_same_disks, multipath.check_paths, multipath.check_multipath),
    *(metadata.check_foreign_metadata, metadata.check_shapes, metadata.check_metadata_version),
    *(mismatches.check_mismatches, redundancy.check_schedule),
    *(devices.check_mixed_kinds, devices.check_unequal_latency, devices.check_read_errors),
    *(devices.check_layout, devices.check_write_mostly),
    kernel_bugs.check_kernel_bugs,
    *(alignment.check_data_offset, alignment.check_partitions, alignment.check_filesystems),
)

OF_CONTAINERS: tuple[Rule, ...] = (
    *(containers.check_container, containers.check_unused_disks),
    *(metadata.check_old_superblocks, multipath.check_same_disks, multipath.check_paths, multipath.check_multipath),
)
"""The rules for containers of RAIDs of firmware, which are no arrays."""

NOT_OF_VOLUMES: tuple[Rule, ...] = (
    *(metadata.check_old_superblocks, alignment.check_data_offset, redundancy.check_bitmap, redundancy.check_schedule),
    *(multipath.check_same_disks, multipath.check_paths, multipath.check_multipath),
)
"""Rules that do not apply to volumes of such containers, or whose findings the container has."""

OF_VOLUMES = frozenset({"degraded", "unused-disk", "external", "inactive"})
"""Codes with commands that are proven for RAIDs of firmware. Those of all others are not printed for them."""


VERDICTS = ("absent", "cannot-run", "split", "broken", "only-out")
"""Codes that decide what to do with an array, in the order in which they are printed, before all others."""

_REDUNDANCY = frozenset({"degraded", "faulty", "events", "bbl-lost", "add-fails", "half-rebuilt"})
_ADVICE = frozenset({"never-checked", "no-bitmap", "bitmap-page", "mismatches", "bbl-empty", "bbl-none", "read-errors"})

SILENCES: dict[str, frozenset[str]] = {
    "cannot-run": _REDUNDANCY - {"half-rebuilt"} | _ADVICE | {"inactive", "only-out", "same-slot"},
    "inactive": _ADVICE | {"degraded", "add-fails"},
    "split": _ADVICE | {"events", "only-out"},
    "broken": _REDUNDANCY | _ADVICE | {"cannot-run", "inactive", "only-out", "write-error"},
    "only-out": _ADVICE | {"faulty"},
    "journal-missing": _ADVICE | {"add-fails"},
}
"""What each code silences for the same array: findings that contradict it, or advise an action on the array."""

HARMLESS = frozenset(
    {"bbl-unseen", "checksum", "refused", "damage", "two-superblocks", "write-error", "read-errors", "unequal"}
)
"""Codes whose commands only read. Those of all others are not printed for an array with a code of SILENCES."""


def find_problems(inventory: Inventory) -> list[Diagnostic]:
    """Returns what all rules find, the worst first. Reads and changes nothing."""
    software = inventory.software
    diagnostics = list(absent.check_absent(inventory))  # An array that is not there is the worst
    for rule in RULES:
        for array in inventory.arrays:
            if _applies(rule, array):
                diagnostics += rule(array, software)
    diagnostics += split.check_split(inventory)
    diagnostics = _without_unproven_commands(diagnostics, inventory)
    diagnostics = _without_contradictions(diagnostics, inventory)
    diagnostics = [_with_unread_disks(diagnostic, inventory) for diagnostic in diagnostics]
    diagnostics = _with_command_for_all(diagnostics)
    diagnostics += host.check_host(inventory)
    diagnostics += smart.check_disks(inventory)
    diagnostics += log.check_log(inventory)
    single = [_with_single_lines(diagnostic) for diagnostic in diagnostics]
    return sorted(single, key=lambda diagnostic: (diagnostic.rank, _place(diagnostic)))


def _applies(rule: Rule, array: Array) -> bool:
    """Whether a rule is about arrays of this kind."""
    if array.is_container:
        return rule in OF_CONTAINERS
    return not (array.external and rule in NOT_OF_VOLUMES)


def _without_unproven_commands(diagnostics: Iterable[Diagnostic], inventory: Inventory) -> list[Diagnostic]:
    """Returns findings, those about RAIDs of firmware without commands that are not proven for them."""
    names = {array.name for array in inventory.arrays if array.external}
    findings = []
    for diagnostic in diagnostics:
        if diagnostic.subject in names and diagnostic.code not in OF_VOLUMES | HARMLESS:
            diagnostic = replace(diagnostic, remedy=())  # noqa: PLW2901
        findings.append(diagnostic)
    return findings


def _place(diagnostic: Diagnostic) -> int:
    return VERDICTS.index(diagnostic.code) if diagnostic.code in VERDICTS else len(VERDICTS)


def _without_contradictions(diagnostics: Iterable[Diagnostic], inventory: Inventory) -> list[Diagnostic]:
    """Returns findings without those that another finding of the same array silences, and without their commands."""
    diagnostics = list(diagnostics)
    verdicts: dict[str, set[str]] = {}
    for diagnostic in diagnostics:
        if diagnostic.code in SILENCES:
            verdicts.setdefault(diagnostic.subject, set()).add(diagnostic.code)
    for array_split in split.find_splits(inventory):
        for name in array_split.arrays:
            verdicts.setdefault(name, set()).add("split")
    findings = []
    for diagnostic in diagnostics:
        codes = verdicts.get(diagnostic.subject, set())
        if any(diagnostic.code in SILENCES[code] for code in codes):
            continue
        if codes and diagnostic.code not in SILENCES.keys() | HARMLESS:
            diagnostic = replace(diagnostic, remedy=())  # noqa: PLW2901
        findings.append(diagnostic)
    return findings


def _with_unread_disks(diagnostic: Diagnostic, inventory: Inventory) -> Diagnostic:
    """Returns a finding about too few members with the disks that may be the missing ones, and were not read."""
    if diagnostic.code != "cannot-run" or not inventory.unread:
        return diagnostic
    unread = "; ".join(inventory.unread)
    line = f"# Disks that were not read may be the missing members: do not add them. {unread}"
    return replace(diagnostic, remedy=(*diagnostic.remedy, line))


def _with_command_for_all(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Returns findings in which several arrays with empty lists have the command for all arrays, too."""
    repairable = [diagnostic for diagnostic in diagnostics if diagnostic.code == "bbl-empty" and diagnostic.remedy]
    if len(repairable) < 2:
        return diagnostics
    line = f"# For all arrays of this host: {command_lines.fix_bbl_of_host()}"
    findings = []
    for diagnostic in diagnostics:
        if diagnostic.code == "bbl-empty" and diagnostic.remedy:
            findings.append(replace(diagnostic, remedy=(*diagnostic.remedy, line)))
        else:
            findings.append(diagnostic)
    return findings


def _with_single_lines(diagnostic: Diagnostic) -> Diagnostic:
    """Returns a finding whose remedy has one line for each command: names of devices and mounts are hostile."""
    lines = []
    for line in diagnostic.remedy:
        plain = printable(line)
        if plain != line and not line.startswith("#"):
            plain = f"# Not printed as a command, because a name in it has control characters: {plain}"
        lines.append(plain)
    return replace(diagnostic, remedy=tuple(lines))
