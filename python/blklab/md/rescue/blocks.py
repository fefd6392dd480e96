"""Blocks that say themselves where they belong: what a geometry is judged by."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

Read = Callable[[int, int], bytes]
"""Returns bytes of a volume from its beginning: the first and how many; fewer if they cannot be read."""


@dataclass(frozen=True)
class Check:
    """A block that must be at an address, with what it must contain. Two with one address and kind are equal."""

    address: int  # Byte from the beginning of the volume; in results, of the array
    kind: str  # In words, for reports: `ext4 inode`
    length: int = field(compare=False)
    holds: Callable[[bytes], bool] = field(compare=False)  # Gets `length` bytes


@dataclass(frozen=True)
class FoundBlock:
    """A block on a device that says which address it has."""

    device: int  # Its number in the order of the devices given
    position: int  # Byte on the device
    checks: tuple[Check, ...]  # Where it may belong: one, or one for each copy


class SelfDescribing(Protocol):
    """A volume whose metadata carry their own addresses, or checksums that depend on them."""

    name: str  # `ext4`
    uuid: bytes

    @property
    def size(self) -> int:
        """Bytes of the volume."""

    def learn_groups(self, piece: bytes, end: int) -> None:
        """Reads what is needed to know the addresses of other blocks, if a piece of a device has it."""

    def find_blocks(self, piece: bytes, end: int) -> Iterator[tuple[int, tuple[Check, ...]]]:
        """Yields blocks that begin before `end` in a piece of a device: where in it, and where they belong."""

    def list_checks(self, read: Read) -> Iterator[Check]:
        """Yields blocks that the metadata name, as far as they can be read, a sample of all."""


def spread(count: int, limit: int) -> list[int]:
    """Returns up to `limit` numbers below `count`, evenly spread, with the first and the last."""
    if count <= limit:
        return list(range(count))
    return sorted({number * (count - 1) // (limit - 1) for number in range(limit)})
