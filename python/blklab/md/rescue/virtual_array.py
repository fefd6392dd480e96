"""An array that exists only here: it maps bytes of an array to bytes of devices, and reads them.

Nothing is assembled and nothing is written: the devices are opened with O_RDONLY. `_core.MdMap` maps sectors of
members to those of the array; the search needs the other direction. The tests compare both.
"""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from blklab.errors import BlklabError, SystemErrors
from blklab.units import SECTOR

LEFT_ASYMMETRIC, RIGHT_ASYMMETRIC, LEFT_SYMMETRIC, RIGHT_SYMMETRIC = range(4)  # drivers/md/raid5.h
LAYOUT_NAMES = ("left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric")
# drivers/md/raid10.c, `setup_geo`
NEAR2 = 0x102
NEAR3 = 0x103
FAR2 = 0x201
OFFSET2 = 0x10201
RAID10_NAMES = {NEAR2: "n2", NEAR3: "n3", FAR2: "f2", OFFSET2: "o2"}
LARGEST_READ = 1 << 20  # Bytes of one read through an array


@dataclass(frozen=True, order=True)
class Place:
    """A byte of a member, from the beginning of its data."""

    slot: int
    offset: int


@dataclass(frozen=True, order=True)
class Layout:
    """How an array deals its bytes out to its slots. Sizes are bytes."""

    level: int  # 0, 1, 4, 5, 6 or 10
    disks: int  # Slots
    chunk: int  # 0 for RAID-1
    number: int = 0  # The layout as the superblock has it; 0 for levels without layouts
    stride: int = 0  # RAID-10 with far copies: from a copy to the next one; 0 if it is not known

    @property
    def name(self) -> str:
        """The layout as `mdadm --layout` takes it; empty for levels without layouts."""
        if self.level in {5, 6}:
            return LAYOUT_NAMES[self.number]
        return RAID10_NAMES.get(self.number, hex(self.number)) if self.level == 10 else ""

    @property
    def parities(self) -> int:
        return {4: 1, 5: 1, 6: 2}.get(self.level, 0)

    @property
    def data_disks(self) -> int:
        """Chunks of data in each stripe of a level with parity."""
        return self.disks - self.parities

    def find_copies(self, address: int) -> list[Place]:
        """Returns where a byte of the array lies: one place, or one for each copy.

        RAID-0 has one zone here: members of different sizes are followed to the end of the smallest one.
        """
        if self.level == 1:
            return [Place(slot, address) for slot in range(self.disks)]
        chunk, within = divmod(address, self.chunk)
        if self.level == 10:
            return self._find_raid10_copies(chunk, within)
        row, column = divmod(chunk, self.data_disks)
        return [Place(self.data_slots(row)[column], row * self.chunk + within)]

    def _find_raid10_copies(self, chunk: int, within: int) -> list[Place]:
        """Returns the copies of a byte (drivers/md/raid10.c, `__raid10_find_phys`, without far sets)."""
        near = self.number & 0xFF
        far = self.number >> 8 & 0xFF
        is_offset = bool(self.number >> 16 & 1)
        copies = []
        for far_copy in range(far):
            for near_copy in range(near):
                row, slot = divmod(chunk * near + near_copy, self.disks)
                copy_slot = (slot + far_copy * near) % self.disks
                if is_offset:
                    offset = (row * far + far_copy) * self.chunk
                elif far_copy and not self.stride:
                    continue
                else:
                    offset = row * self.chunk + far_copy * self.stride
                copies.append(Place(copy_slot, offset + within))
        return copies

    def parity_slots(self, row: int) -> list[int]:
        """Returns the slots of P and Q of a stripe (drivers/md/raid5.c, `raid5_compute_sector`)."""
        if self.level == 4:
            return [self.disks - 1]
        if self.level not in {5, 6}:
            return []
        turn = row % self.disks
        is_left = self.number in {LEFT_ASYMMETRIC, LEFT_SYMMETRIC}
        parity = self.disks - 1 - turn if is_left else turn
        return [parity] if self.level == 5 else [parity, (parity + 1) % self.disks]

    def data_slots(self, row: int) -> list[int]:
        """Returns the slots of a stripe's chunks of data, in the order of the array."""
        parities = self.parity_slots(row)
        if self.number in {LEFT_SYMMETRIC, RIGHT_SYMMETRIC} and parities:
            first = parities[-1] + 1
            return [(first + column) % self.disks for column in range(self.data_disks)]
        return [slot for slot in range(self.disks) if slot not in parities]

    def syndrome_slots(self, row: int) -> list[int]:
        """Returns the slots of the data in the order of Q's powers (drivers/md/raid5.c, `raid6_d0`)."""
        parities = self.parity_slots(row)
        first = parities[-1] + 1
        slots = [(first + column) % self.disks for column in range(self.disks)]
        return [slot for slot in slots if slot not in parities]

    def equal_slots(self) -> list[list[int]]:
        """Returns groups of slots with the same content: their order cannot be told, and does not matter."""
        if self.level == 1 or (self.level == 10 and self.number in {NEAR2, NEAR3} and not self.disks % self._copies):
            width = self.disks if self.level == 1 else self._copies
            return [list(range(first, first + width)) for first in range(0, self.disks, width)]
        return [[0, 1]] if self.level in {4, 5} and self.disks == 2 else []

    @property
    def _copies(self) -> int:
        return (self.number & 0xFF) * (self.number >> 8 & 0xFF)


open_device = os.open  # Tests look at its flags


class Devices:
    """Devices or images that are only read."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Raises BlklabError for what cannot be opened."""
        self.paths = list(paths)
        self._descriptors: list[int] = []
        self.sizes: list[int] = []
        for path in self.paths:
            with SystemErrors(BlklabError, path, ": expected a device or an image that can be read"):
                descriptor = open_device(path, os.O_RDONLY | os.O_CLOEXEC)
                self._descriptors.append(descriptor)
                self.sizes.append(os.lseek(descriptor, 0, os.SEEK_END))
        self.bytes_read = 0
        self.overwritten: list[list[tuple[int, int]]] = [[] for _ in self.paths]
        """By device, bytes that hold no old data: the first, and the one behind. An array reads them as missing."""

    def read(self, device: int, offset: int, length: int) -> bytes:
        """Returns bytes of a device; fewer at its end or where it cannot be read."""
        if offset < 0 or offset >= self.sizes[device]:
            return b""
        try:
            content = os.pread(self._descriptors[device], length, offset)
        except OSError:  # A bad sector: what lies there counts as not matching
            return b""
        self.bytes_read += len(content)
        return content

    def find_data(self, device: int, offset: int) -> int:
        """Returns the first byte from here on that is not in a hole of a sparse image; its size if all are."""
        try:
            return os.lseek(self._descriptors[device], offset, os.SEEK_DATA)
        except OSError as error:
            return self.sizes[device] if error.errno == errno.ENXIO else offset

    def is_overwritten(self, device: int, offset: int, length: int) -> bool:
        return any(begin < offset + length and offset < end for begin, end in self.overwritten[device])

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def __enter__(self) -> "Devices":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Placement:
    """A layout, and which device is in which slot. Offsets are bytes."""

    layout: Layout
    devices: tuple[int | None, ...]  # By slot: the number of the device as it was given; None if it is missing
    data_offsets: tuple[int | None, ...]  # By slot; None if the device is missing


class VirtualArray:
    """Reads an array through a placement. What a missing member had is computed from the others."""

    def __init__(self, devices: Devices, placement: Placement) -> None:
        self._devices = devices
        self._placement = placement
        self._layout = placement.layout

    def read(self, address: int, length: int, copy: int = 0) -> bytes:
        """Returns bytes of the array, at most 1 MiB; fewer if some cannot be read.

        `copy` is which copy to prefer, for levels with copies.
        """
        pieces = []
        end = address + min(length, LARGEST_READ)
        while address < end:
            step = end - address
            if self._layout.chunk:
                step = min(step, self._layout.chunk - address % self._layout.chunk)
            piece = self._read_in_chunk(address, step, copy)
            pieces.append(piece)
            if len(piece) < step:
                break
            address += step
        return b"".join(pieces)

    def find_places(self, address: int) -> list[tuple[int, int]]:
        """Returns where the bytes lie on devices that are there: the device and the byte on it."""
        places = []
        for place in self._layout.find_copies(address):
            device = self._placement.devices[place.slot]
            data_offset = self._placement.data_offsets[place.slot]
            if device is not None and data_offset is not None:
                places.append((device, data_offset + place.offset))
        return places

    def find_sources(self, address: int) -> list[int]:
        """Returns the devices that a read of a byte uses: one, or the rest of the stripe if that one is missing."""
        place = self._layout.find_copies(address)[0]
        if self._layout.parities and self._is_erased(place, 1):
            return self.find_stripe(address)
        return [device for device, _ in self.find_places(address)[:1]]

    def find_stripe(self, address: int) -> list[int]:
        """Returns the devices that are there of a byte's stripe, or those with its copies."""
        if self._layout.parities:
            return [device for device in self._placement.devices if device is not None]
        return [device for device, _ in self.find_places(address)]

    def read_slot(self, slot: int, offset: int, length: int) -> bytes | None:
        """Returns bytes of a slot's data; None if its member is missing, was overwritten there, or ends there."""
        device = self._placement.devices[slot]
        data_offset = self._placement.data_offsets[slot]
        if device is None or data_offset is None:
            return None
        if self._devices.is_overwritten(device, data_offset + offset, length):
            return None
        content = self._devices.read(device, data_offset + offset, length)
        return content if len(content) == length else None

    def _read_in_chunk(self, address: int, length: int, copy: int) -> bytes:
        copies = self._layout.find_copies(address)
        ordered_copies = copies[copy % len(copies) :] + copies[: copy % len(copies)]
        for place in ordered_copies:
            content = self.read_slot(place.slot, place.offset, length)
            if content is not None:
                return content
        if not self._layout.parities or not self._is_erased(copies[0], length):
            return b""
        return self._reconstruct(copies[0], length) or b""

    def _is_erased(self, place: Place, length: int) -> bool:
        """Whether a member is missing, or was overwritten here; where it only ends, parity does not help."""
        device = self._placement.devices[place.slot]
        data_offset = self._placement.data_offsets[place.slot]
        if device is None or data_offset is None:
            return True
        return self._devices.is_overwritten(device, data_offset + place.offset, length)

    def _reconstruct(self, place: Place, length: int) -> bytes | None:
        """Computes the data of a missing member from parity; None if too much is missing."""
        row = place.offset // self._layout.chunk
        chunks = [self.read_slot(slot, place.offset, length) for slot in range(self._layout.disks)]
        parities = self._layout.parity_slots(row)
        missing = [slot for slot in self._layout.data_slots(row) if chunks[slot] is None]
        p = chunks[parities[0]]
        if len(missing) == 1 and p is not None:
            return xor([p, *(chunks[slot] for slot in self._layout.data_slots(row) if slot != place.slot)])
        if self._layout.parities < 2:
            return None
        return solve_with_q(self._layout.syndrome_slots(row), chunks, p, chunks[parities[1]], place.slot)

    def is_parity(self, device: int, position: int) -> bool:
        """Whether a byte of a device is in parity that fits its stripe, as far as all members are there."""
        if not self._layout.parities or device not in self._placement.devices:
            return False
        slot = self._placement.devices.index(device)
        offset = position - (self._placement.data_offsets[slot] or 0)
        if offset < 0 or slot not in self._layout.parity_slots(offset // self._layout.chunk):
            return False
        return self.check_parity(offset // 4096 * 4096, 4096) is not False

    def check_parity(self, offset: int, length: int) -> bool | None:
        """Tells whether the parity of a stripe fits, at this byte of each member.

        None if it cannot tell: a member is missing or ends, or all bytes are zero, which fits anything.
        """
        row = offset // self._layout.chunk
        chunks = [self.read_slot(slot, offset, length) for slot in range(self._layout.disks)]
        parities = self._layout.parity_slots(row)
        present = [chunk for chunk in chunks if chunk is not None]
        if len(present) < len(chunks) or sum(1 for chunk in present if any(chunk)) < 2:
            return None
        data = [chunks[slot] for slot in self._layout.data_slots(row)]
        if any(xor([*data, chunks[parities[0]]])):
            return False
        if len(parities) == 1:
            return True
        return compute_q(self._layout.syndrome_slots(row), chunks) == chunks[parities[1]]


class GaloisField:
    """Multiplication in the field of RAID-6 (H. P. Anvin, The mathematics of RAID-6; polynomial 0x11d)."""

    def __init__(self) -> None:
        self.powers = [1]
        for _ in range(254):
            next_power = self.powers[-1] << 1
            self.powers.append(next_power ^ 0x11D if next_power & 0x100 else next_power)
        self._logs = {value: exponent for exponent, value in enumerate(self.powers)}

    def multiply(self, left: int, right: int) -> int:
        if not left or not right:
            return 0
        return self.powers[(self._logs[left] + self._logs[right]) % 255]

    def invert(self, value: int) -> int:
        return self.powers[-self._logs[value] % 255]

    @cached_property
    def tables(self) -> list[bytes]:
        """For each factor, the products with all bytes, for `bytes.translate`."""
        return [bytes(self.multiply(factor, byte) for byte in range(256)) for factor in range(256)]

    def scale(self, content: bytes, factor: int) -> bytes:
        return content.translate(self.tables[factor])


FIELD = GaloisField()


def xor(chunks: Sequence[bytes | None]) -> bytes:
    """Returns the exclusive or of chunks of one length; None counts as zero."""
    total = 0
    length = 0
    for chunk in chunks:
        if chunk is not None:
            total ^= int.from_bytes(chunk, "little")
            length = max(length, len(chunk))
    return total.to_bytes(length, "little")


def compute_q(slots: Sequence[int], chunks: Sequence[bytes | None]) -> bytes:
    """Returns Q of the data in the order of its powers; missing data count as zero."""
    products = []
    for power, slot in enumerate(slots):
        chunk = chunks[slot]
        if chunk is not None:
            products.append(FIELD.scale(chunk, FIELD.powers[power]))
    return xor(products)


def solve_with_q(
    slots: Sequence[int], chunks: Sequence[bytes | None], p: bytes | None, q: bytes | None, target: int
) -> bytes | None:
    """Computes the data of a slot from Q, and from P if two are missing; None if too much is missing."""
    missing = [slot for slot in slots if chunks[slot] is None]
    if q is None:
        return None
    remainder = xor([q, compute_q(slots, chunks)])
    first = FIELD.powers[slots.index(target)]
    if len(missing) == 1:
        return FIELD.scale(remainder, FIELD.invert(first))
    if len(missing) > 2 or p is None:
        return None
    # a + b = s and A a + B b = t give a = (t + B s) / (A + B)
    (other,) = (slot for slot in missing if slot != target)
    second = FIELD.powers[slots.index(other)]
    total = xor([p, *(chunks[slot] for slot in slots)])
    return FIELD.scale(xor([remainder, FIELD.scale(total, second)]), FIELD.invert(first ^ second))


def in_sectors(offset: int) -> int:
    """Returns bytes as sectors of 512 bytes."""
    return offset // SECTOR
