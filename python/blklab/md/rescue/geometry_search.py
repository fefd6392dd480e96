"""Finds the geometry of an array whose superblocks are lost, from its content. It only reads, and assembles nothing.

After a wrong `mdadm --create`, the superblocks name a wrong order, chunk, layout or data offset, but the data are
there. Filesystems have blocks that say where they belong (md/rescue/blocks_*.py). The search has three steps:

1. Each device is read from its beginning, and such blocks are collected.
2. For each level, layout and chunk, the blocks name the slots and the data offsets (geometry_votes.py).
3. Each geometry that explains most blocks is read as a virtual array (virtual_array.py). The filesystem in it names
   more blocks; for all geometries, the same blocks are checked. Copies and parity are compared, too.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from blklab.errors import UsageError
from blklab.md.rescue import blocks_btrfs, blocks_ext4, blocks_xfs
from blklab.md.rescue.blocks import Check, FoundBlock, SelfDescribing, spread
from blklab.md.rescue.blocks_volumes import MOST_BEGINNINGS, find_beginnings, find_volume_blocks, list_volume_checks
from blklab.md.rescue.geometry_votes import Proposal, find_strides, list_layouts, propose
from blklab.md.rescue.old_superblocks import find_old_superblocks
from blklab.md.rescue.virtual_array import FAR2, Devices, Layout, VirtualArray
from blklab.md.superblocks import Superblock, read_superblocks
from blklab.units import SECTOR

LEVELS = (0, 1, 4, 5, 6, 10)
CHUNKS = tuple(4096 << power for power in range(9))  # 4 KiB to 1 MiB
LEAST_DEVICES = 2
MOST_DEVICES = 8
SCANNED = 320 << 20  # Bytes of each device that are read from its beginning: 132 MiB may be before the data
# Bytes of a read, and of those behind that a block may reach
PIECE = 1 << 20
OVERLAP = 64 << 10
VOLUME_BLOCKS = 400  # Labels and headers that are kept, of all devices
BLOCKS_OF_DEVICE = 500  # Found blocks of a device that vote
# Geometries that are read: with few checks, more, all of them
PROPOSALS = 1000
COMPARED = 300
FINALISTS = 40
QUICK_CHECKS = 40
MOST_CHECKS = 1000
MOST_STRIPES = 64
LEAST_MATCHING = 0.98  # Of the checked blocks, for a geometry that is believed
LEAST_EVIDENCE = 2  # Pieces of 4 KiB on each device
LEAST_FOUND = 0.6  # Of the found blocks: others may be older than the filesystem as it is

# Metadata 0.90 and 1.0 are at the end of a member, and its data at 0. With 1.1 and 1.2, mdadm 3.2.5 and later leave
# room for a reshape: at most 128 MiB, halved until it fits the device (super1.c, `choose_headroom`), and 4.1 and later
# 1 MiB more, for the bitmap. mdadm 3.1.2 to 3.2.4 choose 1 MiB (2048 sectors); earlier ones begin behind the superblock
# or the bitmap, without rounding.
ROOMS = tuple(1 << power for power in range(18, 10, -1))
ROUNDED = tuple(room + 2048 for room in ROOMS)
UNROUNDED = (8, 16, 24, 136, 256, 264, 272, 384, 512, 1024)
PLAUSIBLE_OFFSETS = tuple(sectors * SECTOR for sectors in (0, *ROOMS, *ROUNDED, *UNROUNDED))
"""Data offsets in bytes that versions of mdadm choose by themselves. They are tried for a device without any block
that says where it belongs; for other devices, the blocks say the offset."""

Named = tuple[int | None, Check]
"""A block to look for; the number is the beginning of the filesystem that it is for, None if it is for any."""


@dataclass(frozen=True)
class GeometryHints:
    """What the caller knows of the old array."""

    levels: tuple[int, ...] = LEVELS  # Levels that it may have had
    missing: int = 0  # Members that are not given
    chunks: tuple[int, ...] = ()  # Further chunk sizes in bytes, tried first
    data_offsets: tuple[int, ...] = ()  # Further data offsets in bytes, tried first
    member_sizes: tuple[int, ...] = ()  # Bytes of each member that the array used, for far copies
    scanned: int = SCANNED  # Bytes of each device that are read from its beginning


@dataclass(frozen=True)
class GeometryMember:
    """A slot of an array."""

    slot: int
    path: str | None  # The device; None if it is missing
    data_offset: int | None  # Bytes from the beginning of the device to its data; None if it is missing
    evidence: int  # Pieces of 4 KiB on it that hold matching blocks, or parity or copies that fit


@dataclass(frozen=True)
class OldGeometry:
    """A geometry in mdadm's terms, and how much speaks for it."""

    level: int
    layout: str  # As `mdadm --layout` takes it; empty for levels without layouts
    chunk: int  # Bytes; 0 for RAID-1
    members: tuple[GeometryMember, ...]  # By slot
    equal_slots: tuple[tuple[int, ...], ...]  # Slots with the same content: their order cannot be told
    metadata: str  # A guess of the metadata's version, from the data offsets
    checked: int  # Blocks that the content names, and that were looked for
    matching: int  # Of these, those that are there
    overwritten: int  # Of the others, those where the present superblocks, bitmaps or lists are
    found: int  # Blocks that were found on the devices, and are not in parity in this geometry
    found_matching: int  # Of these, those for which such a block is at the address that they say
    found_overwritten: int  # Further ones, whose address was overwritten
    votes: int  # Found blocks that name its slots and offsets
    redundancy_checked: int  # Pieces of stripes or copies that were compared
    redundancy_matching: int  # Of these, those whose parity or copy fits

    @property
    def explains_all(self) -> bool:
        return self.matching + self.overwritten == self.checked

    @property
    def explained(self) -> int:
        """All blocks that are where they say."""
        return self.matching + self.found_matching

    @property
    def unproven_members(self) -> list[str]:
        """Devices of which too little says where they belong."""
        return [member.path for member in self.members if member.path is not None and member.evidence < LEAST_EVIDENCE]

    @property
    def has_usual_offsets(self) -> bool:
        """Whether mdadm chooses such data offsets by itself, as far as is known."""
        return all(member.data_offset is None or member.data_offset in PLAUSIBLE_OFFSETS for member in self.members)


@dataclass(frozen=True)
class GeometrySearch:
    """What a search found."""

    verdict: str  # `unique`, `several` or `none`
    geometries: tuple[OldGeometry, ...]  # Those that cannot be told apart, the best one first; none if `none`
    tried: int  # Geometries that were read as virtual arrays
    blocks_found: dict[str, int]  # Blocks that say where they belong, on all devices, by their kind
    filesystems: tuple[str, ...]  # What was found: kind and UUID
    bytes_read: int
    complete: bool  # Whether all geometries that may explain as much were tried
    notes: tuple[str, ...] = ()  # What would tell more, and what is not certain
    devices: tuple[str, ...] = ()  # As they were given

    @property
    def limits(self) -> tuple[str, ...]:
        """What a geometry that was found does not prove; empty if none was found."""
        if not self.geometries:
            return ()
        return (
            "Proven are only the blocks that were checked. Blocks of files do not say where they belong: the metadata "
            "around them speak for them.",
            "The first filesystem is taken to begin where the array begins, or where a partition table or a volume "
            "label that was found says it.",
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the search for JSON; offsets also in sectors of 512 bytes."""
        document = asdict(self)
        document["limits"] = self.limits
        for geometry in document["geometries"]:
            for member in geometry["members"]:
                offset = member["data_offset"]
                member["data_offset_sectors"] = None if offset is None else offset // SECTOR
        return document


def find_geometries(devices: Sequence[Path], hints: GeometryHints | None = None) -> GeometrySearch:
    """Searches for the geometry of the array whose members these devices were; they may be in any order.

    Raises UsageError for fewer than 2 or more than 8 slots, BlklabError for a device that cannot be opened.
    """
    hints = hints or GeometryHints()
    slots = len(devices) + hints.missing
    if not devices or hints.missing < 0 or not LEAST_DEVICES <= slots <= MOST_DEVICES:
        raise UsageError(f"{slots} slots: expected {LEAST_DEVICES} to {MOST_DEVICES} devices, with `missing` ones")
    if len(set(devices)) < len(devices):
        raise UsageError("a device is named twice: expected each member once")
    with Devices(devices) as open_devices:
        return _Search(open_devices, hints, slots).run()


class _Search:
    def __init__(self, devices: Devices, hints: GeometryHints, slots: int) -> None:
        self._devices = devices
        self._slots = slots
        devices.overwritten, offsets, sizes, chunks = _read_present_superblocks(devices)
        self._hints = replace(
            hints,
            data_offsets=tuple(dict.fromkeys([*hints.data_offsets, *offsets])),
            member_sizes=tuple(dict.fromkeys([*hints.member_sizes, *sizes])),
            chunks=tuple(dict.fromkeys([*hints.chunks, *chunks])),
        )
        self._filesystems: dict[bytes, SelfDescribing] = {}
        self._beginnings: set[int] = {0}
        self._volume_blocks: list[FoundBlock] = []
        self._blocks: dict[bytes, list[FoundBlock]] = {}  # By the UUID of the filesystem

    def run(self) -> GeometrySearch:
        self._scan()
        main = max(self._blocks, key=self._count_blocks, default=b"")
        proposals, cut = self._propose(main)
        finalists, are_equal_left_out = self._judge(proposals, main)
        complete = not are_equal_left_out and bool(finalists) and cut < finalists[0].votes
        verdict, geometries = decide(finalists, complete)
        kinds = Counter(block.checks[0].kind for blocks in self._blocks.values() for block in blocks)
        kinds.update(block.checks[0].kind for block in self._volume_blocks)
        return GeometrySearch(
            verdict,
            tuple(geometries),
            len(proposals),
            dict(sorted(kinds.items())),
            tuple(sorted(f"{filesystem.name} {filesystem.uuid.hex()}" for filesystem in self._filesystems.values())),
            self._devices.bytes_read,
            complete,
            tuple(_notes(verdict, geometries, finalists, complete)),
            tuple(str(path) for path in self._devices.paths),
        )

    def _count_blocks(self, uuid: bytes) -> int:
        return len(self._blocks[uuid])

    def _pieces(self, device: int) -> Iterator[tuple[int, bytes, int]]:
        """Yields pieces of a device that are not all zero: where each begins, its bytes, and its length.

        The bytes go on behind the length: a block that begins in it may end there.
        """
        end = min(self._hints.scanned, self._devices.sizes[device])
        for position in range(0, end, PIECE):
            if self._devices.find_data(device, position) >= position + PIECE + OVERLAP:
                continue
            piece = self._devices.read(device, position, PIECE + OVERLAP)
            if piece.count(0) < len(piece):
                yield position, piece, min(PIECE, len(piece))

    def _scan(self) -> None:
        """Reads the devices three times: superblocks first, then what gives addresses their meaning, then blocks."""
        devices = range(len(self._devices.paths))
        for device in devices:
            for _, piece, end in self._pieces(device):
                self._find_filesystems(piece, end)
                self._beginnings |= find_beginnings(piece, end)
        if self._filesystems:
            for device in devices:
                for _, piece, end in self._pieces(device):
                    for filesystem in self._filesystems.values():
                        filesystem.learn_groups(piece, end)
        for device in devices:
            self._find_blocks(device)

    def _find_blocks(self, device: int) -> None:
        """Collects the blocks of a device that say where they belong: a sample of each filesystem's."""
        blocks: dict[bytes, dict[tuple[str, int], FoundBlock]] = {uuid: {} for uuid in self._filesystems}
        for position, piece, end in self._pieces(device):
            for start, checks in find_volume_blocks(piece, end):
                if len(self._volume_blocks) < VOLUME_BLOCKS:
                    self._volume_blocks.append(FoundBlock(device, position + start, checks))
            for uuid, filesystem in self._filesystems.items():
                for start, checks in filesystem.find_blocks(piece, end):
                    # Of each 4 KiB, one block of a kind is enough: no chunk is smaller.
                    block = FoundBlock(device, position + start, checks)
                    blocks[uuid].setdefault((checks[0].kind, block.position // 4096), block)
        for uuid, places in blocks.items():
            candidates = list(places.values())
            sample = [candidates[number] for number in spread(len(candidates), BLOCKS_OF_DEVICE)]
            self._blocks.setdefault(uuid, []).extend(sample)

    def _find_filesystems(self, piece: bytes, end: int) -> None:
        """Adds the filesystems whose superblocks, or copies of these, are in a piece."""
        kinds = (
            (blocks_ext4.MAGIC, 56, 1024, blocks_ext4.is_superblock, blocks_ext4.Ext4, 1024, 104),
            (blocks_xfs.MAGIC, 0, SECTOR, blocks_xfs.is_superblock, blocks_xfs.Xfs, 4096, 32),
            (blocks_btrfs.MAGIC, 64, 4096, blocks_btrfs.is_superblock, blocks_btrfs.Btrfs, 4096, 32),
        )
        for magic, magic_offset, alignment, is_superblock, make, length, uuid_offset in kinds:
            position = piece.find(magic)
            while 0 <= position - magic_offset < end:
                start = position - magic_offset
                content = piece[start : start + length]
                uuid = content[uuid_offset : uuid_offset + 16]
                if start % alignment == 0 and uuid not in self._filesystems and is_superblock(content):
                    self._filesystems[uuid] = make(content)
                position = piece.find(magic, position + 1)

    def _propose(self, main: bytes) -> tuple[list[Proposal], int]:
        """Returns the geometries with most votes, for each beginning that the filesystem may have in the array.

        Also the most votes of those that were left out; 0 if none were.
        """
        offsets = list(dict.fromkeys([*self._hints.data_offsets, *PLAUSIBLE_OFFSETS]))
        proposals: list[Proposal] = []
        cut = 0
        blocks = self._blocks.get(main, [])
        for beginning in sorted(self._beginnings)[:MOST_BEGINNINGS] if blocks else [0]:
            volume_blocks = [_move(block, -beginning) for block in self._volume_blocks]
            layouts = self._list_layouts(blocks)
            result = propose([*blocks, *volume_blocks], layouts, len(self._devices.paths), beginning, offsets)
            proposals += result.proposals
            cut = max(cut, result.cut)
        size = self._filesystems[main].size if main else 0
        proposals = [proposal for proposal in proposals if self._is_possible(proposal, size)]
        proposals.sort(key=_votes, reverse=True)
        if len(proposals) > PROPOSALS:
            cut = max(cut, proposals[PROPOSALS].votes)
        return proposals[:PROPOSALS], cut

    def _list_layouts(self, blocks: Sequence[FoundBlock]) -> list[Layout]:
        """Returns the layouts to try; those with far copies for each distance that these may have."""
        chunks = sorted({*CHUNKS, *self._hints.chunks})
        layouts = []
        for layout in list_layouts(self._hints.levels, self._slots, self._hints.missing, chunks):
            layouts.append(layout)
            if layout.level == 10 and layout.number == FAR2:
                smallest = min(self._devices.sizes)
                sizes = [*self._hints.member_sizes, *(smallest - offset for offset in self._hints.data_offsets)]
                strides = find_strides(blocks, layout, sizes)
                layouts += [replace(layout, stride=stride) for stride in strides]
        return layouts

    def _is_possible(self, proposal: Proposal, size: int) -> bool:
        """Whether a volume of so many bytes fits, and far copies are where they were seen.

        Of a device that was read as a whole, all far copies were seen. Without a distance, they are RAID-0.
        """
        placement = proposal.placement
        layout = placement.layout
        is_far_unseen = layout.level == 10 and layout.number == FAR2 and not layout.stride
        if is_far_unseen and max(self._devices.sizes) <= self._hints.scanned:
            return False
        last = max(place.offset for place in layout.find_copies(proposal.beginning + max(0, size - 1))) - layout.chunk
        for device, offset in zip(placement.devices, placement.data_offsets, strict=True):
            if device is not None and offset is not None and offset + max(0, last) >= self._devices.sizes[device]:
                return False
        return True

    def _judge(self, proposals: Sequence[Proposal], main: bytes) -> tuple[list[OldGeometry], bool]:
        """Returns the geometries with the blocks that were checked in each, those that match most first.

        Also whether some were left out that may match as much as the first one.
        """
        blocks = [*self._blocks.get(main, []), *self._volume_blocks]
        finalists, are_equal_left_out = self._choose_finalists(proposals, blocks)
        lists = [list(dict.fromkeys(self._list_checks(proposal, main))) for proposal in finalists]
        # A wrong geometry may read parity as an inode, and name blocks that never were. It contradicts itself.
        counts = [
            self._count(proposal, named_checks)[0] for proposal, named_checks in zip(finalists, lists, strict=True)
        ]
        consistent = [
            named_checks
            for named_checks, count in zip(lists, counts, strict=True)
            if count["matching"] + count["overwritten"] == count["checked"]
        ]
        all_checks: dict[Named, None] = {}
        for named_checks in consistent or lists:
            all_checks.update(dict.fromkeys(named_checks[: MOST_CHECKS - len(all_checks)]))
        checks = list(all_checks)
        geometries = [self._make_geometry(finalist, checks, blocks) for finalist in finalists]
        return sorted(geometries, key=_rank, reverse=True), are_equal_left_out

    def _choose_finalists(
        self, proposals: Sequence[Proposal], blocks: Sequence[FoundBlock]
    ) -> tuple[list[Proposal], bool]:
        """Returns the geometries that explain most of a sample; of equal ones, those with usual data offsets.

        Also whether one was left out that is as good as the first.
        """
        sample = [blocks[number] for number in spread(len(blocks), QUICK_CHECKS)]
        scores = []
        for number, proposal in enumerate(proposals):
            _, matching, overwritten = self._count_found_blocks(proposal, sample)
            scores.append((matching + overwritten, -number))
        scores.sort(reverse=True)
        comparisons = []
        for score, number in scores[:COMPARED]:
            proposal = proposals[-number]
            places = [check for block in sample[::4] for check in block.checks]
            piece_count, matching = self._compare_redundancy(proposal, [(None, check) for check in places], {})
            fitting = 2 * matching - piece_count
            offsets = [offset for offset in proposal.placement.data_offsets if offset is not None]
            unusual = sum(offset not in PLAUSIBLE_OFFSETS for offset in offsets)
            comparisons.append(((score, fitting), -unusual, -len(set(offsets)), number))
        comparisons.sort(reverse=True)
        are_equal_left_out = len(comparisons) > FINALISTS and comparisons[FINALISTS][0] == comparisons[0][0]
        are_equal_left_out = are_equal_left_out or (len(scores) > COMPARED and scores[COMPARED][0] == scores[0][0])
        return [proposals[-number] for _, _, _, number in comparisons[:FINALISTS]], are_equal_left_out

    def _list_checks(self, proposal: Proposal, main: bytes) -> Iterator[tuple[int | None, Check]]:
        """Yields the blocks that the content of a virtual array names."""
        array = VirtualArray(self._devices, proposal.placement)
        for check in list_volume_checks(array.read):
            yield None, check
        for uuid, filesystem in self._filesystems.items():
            for beginning in sorted({*self._beginnings, proposal.beginning})[:MOST_BEGINNINGS]:
                is_main = uuid == main and beginning == proposal.beginning
                if not is_main and not _has_superblock(array, beginning, uuid):
                    continue
                for check in filesystem.list_checks(partial(_read_from, array, beginning)):
                    yield (beginning if uuid == main else None), _shift_check(check, beginning)

    def _count_found_blocks(self, proposal: Proposal, blocks: Sequence[FoundBlock]) -> tuple[int, int, int]:
        """Returns how many found blocks are not in parity, are where they say, or would be where it was overwritten.

        Parity of three inodes looks like a fourth one, as checksums are linear. Old blocks may be left elsewhere.
        """
        array = VirtualArray(self._devices, proposal.placement)
        volume_blocks = set(self._volume_blocks)
        checked_count = matching_count = overwritten_count = 0
        for block in blocks:
            beginning = 0 if block in volume_blocks else proposal.beginning
            checks = [_shift_check(check, beginning) for check in block.checks]
            if any(check.holds(array.read(check.address, check.length)) for check in checks):
                checked_count += 1
                matching_count += 1
            elif any(self._is_overwritten(array, check) for check in checks):
                overwritten_count += 1
            elif not array.is_parity(block.device, block.position):
                checked_count += 1
        return checked_count, matching_count, overwritten_count

    def _is_overwritten(self, array: VirtualArray, check: Check) -> bool:
        places = array.find_places(check.address)
        return any(self._devices.is_overwritten(*place, check.length) for place in places)

    def _count(self, proposal: Proposal, checks: Sequence[Named]) -> tuple[Counter[str], dict[int, set[int]]]:
        """Returns how many blocks were looked for (`checked`), are there (`matching`), or were `overwritten`.

        Also on which pieces of 4 KiB the matching ones lie, by device.
        """
        array = VirtualArray(self._devices, proposal.placement)
        counts: Counter[str] = Counter()
        evidence: dict[int, set[int]] = {}
        for beginning, check in checks:
            if beginning is not None and beginning != proposal.beginning:
                continue
            counts["checked"] += 1
            if check.holds(array.read(check.address, check.length)):
                counts["matching"] += 1
                for device in array.find_sources(check.address):
                    evidence.setdefault(device, set()).add(check.address // 4096)
            elif self._is_overwritten(array, check):
                counts["overwritten"] += 1
        return counts, evidence

    def _make_geometry(self, proposal: Proposal, checks: Sequence[Named], blocks: Sequence[FoundBlock]) -> OldGeometry:
        placement = proposal.placement
        counts, evidence = self._count(proposal, checks)
        found_checked, found_matching, found_overwritten = self._count_found_blocks(proposal, blocks)
        redundancy_checked, redundancy_matching = self._compare_redundancy(proposal, checks, evidence)
        members = []
        for slot, (device, offset) in enumerate(zip(placement.devices, placement.data_offsets, strict=True)):
            path = None if device is None else str(self._devices.paths[device])
            pieces = set() if device is None else evidence.get(device, set())
            members.append(GeometryMember(slot, path, offset, len(pieces)))
        return OldGeometry(
            placement.layout.level,
            placement.layout.name,
            placement.layout.chunk,
            tuple(members),
            tuple(tuple(group) for group in placement.layout.equal_slots()),
            guess_metadata([offset for offset in placement.data_offsets if offset is not None]),
            counts["checked"],
            counts["matching"],
            counts["overwritten"],
            found_checked,
            found_matching,
            found_overwritten,
            proposal.votes,
            redundancy_checked,
            redundancy_matching,
        )

    def _compare_redundancy(
        self, proposal: Proposal, checks: Sequence[Named], evidence: dict[int, set[int]]
    ) -> tuple[int, int]:
        """Compares copies, or parity, where the checked blocks lie. Returns how many pieces, and how many fit.

        Adds the pieces that fit to the evidence for each device.
        """
        layout = proposal.placement.layout
        array = VirtualArray(self._devices, proposal.placement)
        addresses = {
            check.address // 4096 * 4096
            for beginning, check in checks
            if beginning is None or beginning == proposal.beginning
        }
        sorted_addresses = sorted(addresses)
        results = []
        for number in spread(len(sorted_addresses), MOST_STRIPES):
            result = self._compare_at(array, layout, proposal, sorted_addresses[number])
            if result is not None:
                results.append(result)
            if result:
                for device in array.find_stripe(sorted_addresses[number]):
                    evidence.setdefault(device, set()).add(sorted_addresses[number] // 4096)
        return len(results), sum(results)

    def _compare_at(self, array: VirtualArray, layout: Layout, proposal: Proposal, address: int) -> bool | None:
        places = layout.find_copies(address)
        if layout.parities:
            for device, data_offset in zip(proposal.placement.devices, proposal.placement.data_offsets, strict=True):
                if device is None or data_offset is None:
                    return None
                if self._devices.is_overwritten(device, data_offset + places[0].offset, 4096):
                    return None
            return array.check_parity(places[0].offset, 4096)
        if any(self._devices.is_overwritten(*place, 4096) for place in array.find_places(address)):
            return None
        copies = [array.read_slot(place.slot, place.offset, 4096) for place in places]
        present = [copy for copy in copies if copy is not None]
        if len(present) < 2 or not any(any(copy) for copy in present):
            return None
        return all(copy == present[0] for copy in present)


def _votes(proposal: Proposal) -> int:
    return proposal.votes


def _rank(geometry: OldGeometry) -> tuple[bool, int, int, int, bool, int]:
    wrong = geometry.redundancy_checked - geometry.redundancy_matching
    offsets = {member.data_offset for member in geometry.members if member.data_offset is not None}
    return (
        geometry.explains_all,
        geometry.explained,
        -wrong,
        geometry.redundancy_matching,
        geometry.has_usual_offsets,
        -len(offsets),
    )


def _shift_check(check: Check, distance: int) -> Check:
    return replace(check, address=check.address + distance)


def _move(block: FoundBlock, by: int) -> FoundBlock:
    return replace(block, checks=tuple(_shift_check(check, by) for check in block.checks))


def _read_from(array: VirtualArray, beginning: int, address: int, length: int) -> bytes:
    return array.read(beginning + address, length)


def _has_superblock(array: VirtualArray, beginning: int, uuid: bytes) -> bool:
    """Whether the filesystem begins here: its superblock is where the first one must be."""
    ext4 = array.read(beginning + blocks_ext4.SUPERBLOCK_AT, blocks_ext4.SUPERBLOCK)
    xfs = array.read(beginning, 4096)
    btrfs = array.read(beginning + blocks_btrfs.SUPERBLOCKS[0], blocks_btrfs.SUPERBLOCK)
    return (
        (ext4[104:120] == uuid and blocks_ext4.is_superblock(ext4))
        or (xfs[32:48] == uuid and blocks_xfs.is_superblock(xfs))
        or (btrfs[32:48] == uuid and blocks_btrfs.is_superblock(btrfs))
    )


def _read_present_superblocks(devices: Devices) -> tuple[list[list[tuple[int, int]]], list[int], list[int], list[int]]:
    """Returns what the present superblocks overwrote, by device, and the offsets, sizes and chunks that they name."""
    areas: list[list[tuple[int, int]]] = []
    offsets = []
    sizes = []
    chunks = []
    for path in devices.paths:
        written: list[tuple[int, int]] = []
        present = read_superblocks(path).members
        for superblock in present:
            written += _areas(superblock)
        older = [old.superblock for old in find_old_superblocks(path) if old.superblock and not old.member_begin]
        for superblock in [*present, *older]:
            offsets.append(superblock.data_offset * SECTOR)
            sizes.append(superblock.size * SECTOR)
            if superblock.chunk in CHUNKS or (0 < superblock.chunk <= 64 << 20 and superblock.chunk % 4096 == 0):
                chunks.append(superblock.chunk)
        areas.append(written)
    return areas, offsets, sizes, chunks


def _areas(superblock: Superblock) -> Iterator[tuple[int, int]]:
    """Yields the bytes that a superblock, its bitmap and its bad-block list take: the first, and the one behind."""
    yield superblock.offset, superblock.offset + 4096
    bitmap = superblock.bitmap_superblock
    if bitmap is not None and bitmap.chunk:
        bits = -(-bitmap.sync_size * SECTOR // bitmap.chunk)
        pages = -(-(256 + -(-bits // 8)) // 4096)  # It is written in pages
        yield bitmap.offset, bitmap.offset + pages * 4096
    if superblock.bad_blocks is not None:
        begin = superblock.bad_blocks.sector * SECTOR
        yield begin, begin + superblock.bad_blocks.sectors * SECTOR


def guess_metadata(offsets: Sequence[int]) -> str:
    """Returns which version of metadata has such data offsets: at offset 0, the metadata are at the end."""
    return "0.90 or 1.0" if all(offset == 0 for offset in offsets) else "1.2 or 1.1"


def decide(geometries: Sequence[OldGeometry], complete: bool) -> tuple[str, list[OldGeometry]]:
    """Returns the verdict, and the geometries that cannot be told apart; the geometries are sorted by `_rank`.

    Blocks that were overwritten count for a rival: what was there may have fit.
    """
    if not geometries:
        return "none", []
    best = geometries[0]
    if (
        not best.matching
        or best.matching + best.overwritten < LEAST_MATCHING * best.checked
        or best.found_matching < LEAST_FOUND * best.found
        or (best.level in {1, 10} and 2 * best.redundancy_matching < best.redundancy_checked)
    ):
        return "none", []
    rivals = [geometry for geometry in geometries[1:] if _rivals(geometry, best)]
    is_unique = best.explains_all and complete and not rivals and best.has_usual_offsets and not best.unproven_members
    return ("unique" if is_unique else "several"), [best, *rivals]


def _rivals(geometry: OldGeometry, best: OldGeometry) -> bool:
    """Whether a geometry explains as much as the best one."""
    if geometry.explained + geometry.overwritten + geometry.found_overwritten < best.explained:
        return False
    is_refuted = geometry.redundancy_checked > 0 and geometry.redundancy_matching == 0
    best_is_proven = best.redundancy_checked == best.redundancy_matching > geometry.redundancy_matching
    return not (is_refuted or best_is_proven)


def _notes(
    verdict: str, geometries: Sequence[OldGeometry], finalists: Sequence[OldGeometry], complete: bool
) -> Iterator[str]:
    """Yields what is not certain, and what would tell more."""
    if verdict == "none":
        if not finalists:
            yield (
                "No block was found that says where it belongs. ext4, XFS version 5, btrfs, LVM, LUKS and GPT have "
                "such blocks; a filesystem inside LUKS is not readable."
            )
        else:
            best = finalists[0]
            counts = f"{best.matching} of {best.checked} blocks"
            if best.redundancy_checked:
                counts += (
                    f" and {best.redundancy_matching} of {best.redundancy_checked} compared copies or pieces of parity"
                )
            yield (
                f"The best geometry explains {counts}, which is too few. Is a device missing, or one of another array "
                "among them? Name `missing` for each device that is not there."
            )
        return
    best = geometries[0]
    if not best.explains_all:
        yield (
            f"{best.checked - best.matching - best.overwritten} of {best.checked} blocks are not as expected. They "
            "may have been written before a crash, or overwritten since."
        )
    if best.overwritten:
        yield f"{best.overwritten} blocks lie where the present superblocks or bitmaps are: they are overwritten."
    if best.redundancy_matching < best.redundancy_checked:
        wrong = best.redundancy_checked - best.redundancy_matching
        yield f"{wrong} of {best.redundancy_checked} compared pieces of parity or copies do not fit the data."
    if best.unproven_members:
        yield f"Too little was found on {', '.join(best.unproven_members)} to say where it belongs."
    offsets = {member.data_offset for member in best.members if member.data_offset is not None}
    unusual = sorted(offset // SECTOR for offset in offsets if offset not in PLAUSIBLE_OFFSETS)
    if unusual:
        yield (
            f"No version of mdadm is known to choose a data offset of {', '.join(map(str, unusual))} sectors by "
            "itself. If a lost partition table was on the array, its data began before the filesystem."
        )
    if verdict == "several":
        yield from _describe_differences(geometries, complete)


def _describe_differences(geometries: Sequence[OldGeometry], complete: bool) -> Iterator[str]:
    if not complete:
        yield "Not all combinations were tried: too few blocks say where they belong."
    differences: list[tuple[str, set[Any]]] = [
        ("level", {geometry.level for geometry in geometries}),
        ("layout", {geometry.layout for geometry in geometries}),
        ("chunk", {geometry.chunk for geometry in geometries}),
        ("order", {tuple(member.path for member in geometry.members) for geometry in geometries}),
        (
            "data offsets",
            {frozenset((member.path, member.data_offset) for member in candidate.members) for candidate in geometries},
        ),
    ]
    names = [name for name, values in differences if len(values) > 1]
    first = {member.data_offset for member in geometries[0].members if member.data_offset is not None}
    if len(geometries) > 1 and len(first) == 1 and geometries[0].has_usual_offsets:
        yield "The first one has the same data offset on all devices, as when mdadm made them at the same time."
    if names:
        yield (
            f"They differ in {', '.join(names)}. What you know of the old array tells them apart: an old "
            "`mdadm --detail` or `--examine`, the kernel log, a saved superblock, or the level."
        )


def describe_geometry(geometry: OldGeometry) -> list[str]:
    """Returns a geometry in mdadm's terms, one line each."""
    lines = [f"level: RAID-{geometry.level}"]
    if geometry.layout:
        lines.append(f"layout: {geometry.layout}")
    if geometry.chunk:
        lines.append(f"chunk: {geometry.chunk // 1024} KiB")
    lines.append(f"metadata: probably {geometry.metadata}")
    for member in geometry.members:
        if member.path is None or member.data_offset is None:
            lines.append(f"slot {member.slot}: missing")
        else:
            offset = f"{member.data_offset / 1024:g} KiB ({member.data_offset // SECTOR} sectors)"
            lines.append(f"slot {member.slot}: {member.path}, data offset {offset}")
    for group in geometry.equal_slots:
        lines.append(f"slots {', '.join(map(str, group))} have the same content: their order does not matter")
    evidence = f"evidence: {geometry.matching} of {geometry.checked} blocks are where they say"
    if geometry.redundancy_checked:
        pieces = "copies" if geometry.level in {1, 10} else "pieces of parity"
        evidence += f"; {geometry.redundancy_matching} of {geometry.redundancy_checked} {pieces} fit"
    lines.append(evidence)
    return lines


def describe_verdict(search: GeometrySearch) -> str:
    """Returns the answer of a search in one sentence."""
    count = len(search.geometries)
    if search.verdict == "unique":
        return "One geometry explains the blocks that were checked; all others explain fewer."
    if search.verdict == "none":
        return "No geometry explains the content of these devices."
    if count == 1:
        return "One geometry explains the blocks that were checked, but it is not certain that it is the only one."
    return f"{count} geometries explain the same blocks: the content does not tell which one is right."


def describe_search(search: GeometrySearch) -> list[str]:
    """Returns the report of a search: the verdict, the geometries, and what they prove; one line each."""
    lines = [describe_verdict(search)]
    for number, geometry in enumerate(search.geometries, start=1):
        if len(search.geometries) > 1:
            lines.append(f"geometry {number}:")
        lines += describe_geometry(geometry)
    return [*lines, *search.notes, *search.limits]
