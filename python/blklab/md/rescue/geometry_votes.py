"""Solves for the order of devices and their data offsets, from blocks that say where they belong.

No order is tried. With a level, a layout and a chunk, each found block names the slot and the data offset of the
device that it lies on. The blocks of a device vote; what most of them name is combined with that of other devices.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import combinations, permutations, product

from blklab.md.rescue.blocks import Check, FoundBlock
from blklab.md.rescue.virtual_array import FAR2, NEAR2, NEAR3, OFFSET2, Layout, Placement
from blklab.units import SECTOR

Key = tuple[int, int]  # Slot and data offset of a device
KEYS_OF_DEVICE = 6  # How many slots and offsets of a device are tried
LEAST_SHARE = 0.34  # Of the votes for a device's first one, for the others
LEAST_OF_BEST = 0.6  # Of the blocks that the best layout explains, for other layouts
PLAUSIBLE_OF_DEVICE = 2  # Offsets that mdadm chooses, of a device, at which all slots are tried
MOST_COMBINATIONS = 500  # Of one layout
STRIDES = 3  # Distances of far copies that are tried


@dataclass(frozen=True)
class Proposal:
    """A placement that some of the found blocks agree with."""

    placement: Placement
    beginning: int  # Where the filesystem begins, in bytes of the array
    votes: int  # Blocks that agree


@dataclass(frozen=True)
class Proposals:
    proposals: list[Proposal]  # Those with most votes first
    cut: int  # Most votes of those that were left out; 0 if none were


def list_layouts(levels: Sequence[int], disks: int, missing: int, chunks: Sequence[int]) -> list[Layout]:
    """Returns the layouts of an array of so many slots, of which some are missing.

    Left out are those with the same content as RAID-1, if RAID-1 is asked for: RAID-5 of two devices, RAID-10 with
    as many copies as devices.
    """
    layouts = []
    if 1 in levels and missing < disks:
        layouts.append(Layout(1, disks, 0))
    numbers: list[tuple[int, int]] = []  # Level and layout
    if 0 in levels and not missing and disks > 1:
        numbers.append((0, 0))
    if 4 in levels and disks >= 3 and missing <= 1:
        numbers.append((4, 0))
    if 5 in levels and disks >= 3 and missing <= 1:
        numbers += [(5, number) for number in range(4)]
    if 5 in levels and disks == 2 and 1 not in levels and missing <= 1:
        numbers.append((5, 2))
    if 6 in levels and disks >= 4 and missing <= 2:
        numbers += [(6, number) for number in range(4)]
    if 10 in levels:
        for number, copies in ((NEAR2, 2), (FAR2, 2), (OFFSET2, 2), (NEAR3, 3)):
            is_mirror = number in {NEAR2, NEAR3} and copies == disks
            if disks >= copies and not (is_mirror and 1 in levels):
                numbers.append((10, number))
    for level, number in numbers:
        layouts += [Layout(level, disks, chunk, number) for chunk in chunks]
    return layouts


def propose(
    blocks: Sequence[FoundBlock], layouts: Sequence[Layout], devices: int, beginning: int, offsets: Sequence[int]
) -> Proposals:
    """Returns the placements that explain most blocks.

    `offsets` are those that mdadm chooses: for devices on which few blocks, or none, were found.
    """
    layout_votes = []
    for layout in layouts:
        votes = count_votes(blocks, layout, devices, beginning)
        bound = sum(max(counter.values(), default=0) for counter in votes)
        layout_votes.append((bound, layout, votes))
    layout_votes.sort(key=_first, reverse=True)
    best = cut = 0
    proposals: dict[Placement, Proposal] = {}
    for bound, layout, votes in layout_votes:
        if not bound or bound < LEAST_OF_BEST * best:
            break
        for number, proposal in enumerate(_combine(layout, votes, beginning, offsets, LEAST_OF_BEST * best)):
            if number >= MOST_COMBINATIONS:
                cut = max(cut, proposal.votes)
                break
            best = max(best, proposal.votes)
            proposals.setdefault(proposal.placement, proposal)
    best_proposals = [proposal for proposal in proposals.values() if proposal.votes >= LEAST_OF_BEST * best]
    return Proposals(sorted(best_proposals, key=_votes, reverse=True), cut)


def _first(entry: tuple[int, Layout, list[Counter[Key]]]) -> int:
    return entry[0]


def _votes(proposal: Proposal) -> int:
    return proposal.votes


def count_votes(blocks: Sequence[FoundBlock], layout: Layout, devices: int, beginning: int) -> list[Counter[Key]]:
    """Returns for each device how many of its blocks agree with a slot and a data offset."""
    votes: list[Counter[Key]] = [Counter() for _ in range(devices)]
    for block in blocks:
        keys: set[Key] = set()
        for check in block.checks:
            keys.update(_keys(layout, check.address + beginning, block))
        votes[block.device].update(keys)
    return votes


def _keys(layout: Layout, address: int, block: FoundBlock) -> Iterator[Key]:
    places = layout.find_copies(address)
    if layout.level == 1:
        # All slots have the same content: the order given is as good as any.
        places = [replace(places[0], slot=block.device)]
    for place in places:
        offset = block.position - place.offset
        if offset >= 0 and offset % SECTOR == 0:
            yield place.slot, offset
    if layout.parities:
        # If the rest of a stripe is zero, its parity is a copy of the block.
        offset = block.position - places[0].offset
        row = places[0].offset // layout.chunk
        if offset >= 0 and offset % SECTOR == 0:
            for slot in layout.parity_slots(row):
                yield slot, offset


def _combine(
    layout: Layout, votes: Sequence[Counter[Key]], beginning: int, offsets: Sequence[int], least: float
) -> Iterator[Proposal]:
    """Yields ways to give each device one of its slots, no slot twice; those with most votes first."""
    voted_devices = sorted(
        (device for device, counter in enumerate(votes) if counter), key=partial(_most, votes), reverse=True
    )
    unknown_devices = [device for device, counter in enumerate(votes) if not counter]
    options = [_list_options(votes[device], layout.disks, offsets) for device in voted_devices]
    for count, keys in _choose(options, least):
        keys_by_device = dict(zip(voted_devices, keys, strict=True))
        free = [slot for slot in range(layout.disks) if slot not in {slot for slot, _ in keys}]
        for other_keys in _place_unknown(unknown_devices, free, offsets, [offset for _, offset in keys]):
            yield Proposal(make_placement(layout, {**keys_by_device, **other_keys}), beginning, count)


def _most(votes: Sequence[Counter[Key]], device: int) -> int:
    return max(votes[device].values())


def _list_options(counter: Counter[Key], disks: int, plausible: Sequence[int]) -> list[tuple[int, Key]]:
    """Returns slots and offsets for a device with their votes: the first ones, and those at plausible offsets.

    A device with only few blocks may have all of them in parity: at an offset that mdadm chooses, each slot is tried.
    """
    top_keys = counter.most_common(KEYS_OF_DEVICE)
    counts = {key: count for key, count in top_keys if count >= LEAST_SHARE * top_keys[0][1]}
    by_offset: Counter[int] = Counter()
    for (_, offset), count in counter.items():
        if offset in plausible:
            by_offset[offset] += count
    for offset, _ in by_offset.most_common(PLAUSIBLE_OF_DEVICE):
        for slot in range(disks):
            counts[slot, offset] = counter[slot, offset]
    return sorted(((count, key) for key, count in counts.items()), reverse=True)


def _choose(options: Sequence[Sequence[tuple[int, Key]]], least: float) -> Iterator[tuple[int, list[Key]]]:
    """Yields choices of one key for each device, no slot twice, and their votes; most votes first.

    A best-first search: the votes of the devices that are still to come are at most their largest ones.
    """
    remaining_votes = [0] * (len(options) + 1)
    for number in range(len(options) - 1, -1, -1):
        remaining_votes[number] = remaining_votes[number + 1] + options[number][0][0]
    waiting: list[tuple[int, int, int, list[Key]]] = [(-remaining_votes[0], 0, 0, [])]
    serial = 0
    while waiting:
        bound, _, votes, keys = heappop(waiting)
        if -bound < least:
            return
        if len(keys) == len(options):
            yield votes, keys
            continue
        used_slots = {slot for slot, _ in keys}
        for count, key in options[len(keys)]:
            if key[0] not in used_slots:
                serial += 1
                total = votes + count
                heappush(waiting, (-(total + remaining_votes[len(keys) + 1]), serial, total, [*keys, key]))


def _place_unknown(
    devices: Sequence[int], free: Sequence[int], offsets: Sequence[int], seen_offsets: Sequence[int]
) -> Iterator[dict[int, Key]]:
    """Yields places for devices without any found block: each free slot, each plausible offset."""
    candidates = list(dict.fromkeys([*seen_offsets, *offsets]))
    for choice in product(candidates, repeat=len(devices)):
        for slots in permutations(free, len(devices)):
            yield dict(zip(devices, zip(slots, choice, strict=True), strict=True))


def make_placement(layout: Layout, keys: dict[int, Key]) -> Placement:
    """Returns a placement; slots with the same content get their devices in the order given."""
    by_slot: dict[int, tuple[int, int]] = {slot: (device, offset) for device, (slot, offset) in keys.items()}
    for group in layout.equal_slots():
        devices = sorted(by_slot.pop(slot) for slot in group if slot in by_slot)
        by_slot.update(zip(group, devices, strict=False))
    slots = [by_slot.get(slot, (None, None)) for slot in range(layout.disks)]
    return Placement(layout, tuple(device for device, _ in slots), tuple(offset for _, offset in slots))


def find_strides(blocks: Sequence[FoundBlock], layout: Layout, sizes: Sequence[int]) -> list[int]:
    """Returns distances of far copies: those of equal blocks on two devices, and halves of the members' sizes.

    The distance of two blocks is that of the copies if both members have the same data offset.
    """
    by_check: dict[Check, list[FoundBlock]] = {}
    for block in blocks:
        by_check.setdefault(block.checks[0], []).append(block)
    distances: Counter[int] = Counter()
    for copies in by_check.values():
        for first, second in combinations(copies[:4], 2):
            distance = abs(first.position - second.position)
            if first.device != second.device and distance and distance % layout.chunk == 0:
                distances[distance] += 1
    halves = [size // layout.chunk // 2 * layout.chunk for size in sizes]
    strides = [*(distance for distance, _ in distances.most_common(STRIDES)), *halves]
    return list(dict.fromkeys(stride for stride in strides if stride > 0))
