"""The rule about copies or parity that do not match: where, whether it matters, and which copy is right.

What the kernel logs: drivers/md/raid5.c, `handle_parity_checks5` and `handle_parity_checks6`, only RAID-4, 5 and 6.
"""

from collections.abc import Iterator
from dataclasses import replace

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.bad_blocks import find_file_locations
from blklab.md.audit.redundancy import is_changing
from blklab.md.audit.rule import list_names, make_finding
from blklab.md.good_copies import subtract_ranges
from blklab.md.levels import PARITIES
from blklab.md.mismatched_sectors import find_mismatched_sectors
from blklab.md.model import Array, Software, merge_ranges
from blklab.md.superblocks import SectorRange
from blklab.system.users import AS_SWAP
from blklab.units import SECTOR

MOST_RANGES = 4  # Ranges of members in the message
MOST_STRIPES = 20  # Stripes for raid6check
HARMLESS_CONTENT = {"free space"}
METADATA_CHECKSUMS = {"ext4", "xfs"}


def check_mismatches(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The last check counted sectors whose copies or parity differ."""
    if not array.mismatches:
        return
    running = array.sync is not None and array.sync.action in {"check", "repair"}
    count = f"{array.mismatches:,} sectors do not match"
    if running:
        count += " so far"
    sentences = list(_explain_parity(array) if array.level in PARITIES else _explain_copies(array))
    details = _describe_contents(array)
    is_harmless = _is_only_swap(array) or _is_only_free_space(array)
    if _is_only_swap(array):
        sentences.append("The array is only used as swap: there, they are harmless")
    elif is_harmless:
        sentences.append("All of them are in free space: there, they are harmless")
    else:
        sentences += _explain_checksums(array)
    message = ". ".join([f"{count}: {sentences[0]}", *sentences[1:]])
    # With bad blocks, a repair must be avoided.
    bad = any(member.ranges for member in array.members)
    check = [] if bad or is_changing(array) else [command_lines.check_array(array.path)]
    hints = _list_hints(array)
    finding = make_finding(array, "note" if is_harmless else "warning", "mismatches", message, *hints, *check)
    yield replace(finding, ranges=details)


def _explain_copies(array: Array) -> Iterator[str]:
    yield (
        "on mirrors this may be harmless (swap; files that were deleted or changed while they were written), "
        "or copies may really differ"
    )
    yield "The kernel does not log where copies of a mirror differ"
    if _count_copies(array) > 2 and not array.degraded:
        yield (
            "If two of three copies agree, they are probably right; "
            "but md does not compare them, and `repair` uses the first copy"
        )
    else:
        yield "Which copy is right is not known: md has no checksums, and `repair` uses the first copy, right or wrong"


def _count_copies(array: Array) -> int:
    if array.level == "raid10":
        return (array.layout & 0xFF) * (array.layout >> 8 & 0xFF)
    return array.raid_disks


def _explain_parity(array: Array) -> Iterator[str]:
    yield "parity does not match the data, so a rebuild would write wrong data"
    ranges = array.mismatch_ranges
    if ranges:
        places = list_names([str(sectors) for sectors in ranges], MOST_RANGES)
        logged = sum(sectors.sectors for sectors in ranges)
        part = "" if logged >= (array.mismatches or 0) else f" of {logged:,} of them"
        yield f"The kernel's log has the places{part}: sectors {places} of each member, from its data offset"
        on_array = find_mismatched_sectors(array)
        if on_array:
            places = list_names([str(sectors) for sectors in on_array], MOST_RANGES)
            yield f"The data of these stripes are sectors {places} of the array"
    else:
        yield "Where is not known: the kernel's log does not have it (any more), or cannot be read"
    if array.level == "raid6":
        yield "RAID-6 shows which block of a stripe is wrong, if it is only one: two parities agree without it"
    else:
        yield "Which block of a stripe is wrong is not known: `repair` takes the data as right, and rewrites the parity"


def _explain_checksums(array: Array) -> Iterator[str]:
    kinds = {part.filesystem for part in array.parts}
    if "btrfs" in kinds:
        yield "btrfs has checksums of data: `btrfs scrub start -r`, which only reads, finds data that are wrong"
    elif kinds & METADATA_CHECKSUMS:
        names = list_names(sorted(kinds & METADATA_CHECKSUMS))
        yield f"{names} has checksums of metadata only: compare files with a backup"


def _list_hints(array: Array) -> Iterator[str]:
    """Yields how to find out more, as comments: nothing of it writes."""
    if array.level not in PARITIES:
        return
    if not array.mismatch_ranges:
        yield f'# Older messages: journalctl -k --grep "{array.name}: mismatch sector"'
        return
    if array.contents is None:
        yield "# Which files are there: blklab md audit --map-files"
    if array.level == "raid6" and array.chunk:
        stripes = dict.fromkeys(sectors.sector * SECTOR // array.chunk for sectors in array.mismatch_ranges)
        numbers = list_names([str(stripe) for stripe in stripes], MOST_STRIPES)
        yield "# Which disk is wrong: raid6check (in mdadm's sources), never with `autorepair`. Writes wait for it."
        yield f"# raid6check {array.path} STRIPE 1, for these stripes: {numbers}"


def _describe_contents(array: Array) -> tuple[dict[str, object], ...]:
    """Returns where the stripes are on the array, with the files there if they were looked for."""
    details = []
    for sectors in array.mismatch_ranges:
        on_array = find_mismatched_sectors(replace(array, mismatch_ranges=(sectors,)))
        location = find_file_locations(array, on_array)
        details.append({"member_sector": None, "stripe_sector": sectors.sector, "sectors": sectors.sectors, **location})
    return tuple(details)


def _is_only_swap(array: Array) -> bool:
    return bool(array.users) and all(AS_SWAP in user for user in array.users)


def _is_only_free_space(array: Array) -> bool:
    """Whether all places are known, and all data there are free space."""
    logged = sum(sectors.sectors for sectors in array.mismatch_ranges)
    on_array = find_mismatched_sectors(array)
    if array.contents is None or not on_array or logged < (array.mismatches or 0):
        return False
    free = [
        SectorRange(content.begin // SECTOR, content.bytes // SECTOR)
        for content in array.contents
        if content.what in HARMLESS_CONTENT
    ]
    return not subtract_ranges(on_array, merge_ranges(tuple(free)))
