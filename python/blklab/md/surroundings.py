"""What is above arrays and beneath them: partitions, filesystems, their content; disks."""

from dataclasses import dataclass
from typing import Any

from blklab.md.smart.health import Health


@dataclass(frozen=True)
class Geometry:
    """How a filesystem believes that it lies on an array."""

    kind: str
    """`ext4` or `xfs`."""
    device: str
    """The path of what it is on."""
    block: int
    """Bytes."""
    unit: int
    """Bytes of a chunk: ext4's stride, XFS's sunit; 0 if it was not told."""
    width: int
    """Bytes of a stripe; 0 if it was not told."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "kind": self.kind,
            "device": self.device,
            "block_bytes": self.block,
            "unit_bytes": self.unit,
            "width_bytes": self.width,
        }


@dataclass(frozen=True, order=True)
class Content:
    """What lies in some bytes of an array."""

    begin: int
    """The byte of the array."""
    bytes: int
    device: str
    """The path of what it is on: the array, or something above it."""
    path: str = ""
    """The file's, or a directory's; empty if it is none's."""
    offset: int = -1
    """Bytes in the file; -1 of what is not its content, or not told."""
    what: str = ""
    """`free space`, `journal`…; empty of a file's content."""


@dataclass(frozen=True)
class Part:
    """A partition of an array, or the whole of it."""

    name: str
    path: str
    start: int
    """Bytes."""
    mounts: tuple[str, ...] = ()
    """Where it is mounted."""
    geometry: Geometry | None = None


@dataclass(frozen=True)
class Disk:
    """A disk beneath arrays, or behind a controller, as it sees itself."""

    name: str
    """The kernel's; of what it does not know, a controller's path and the type for smartctl."""
    path: str
    arrays: tuple[str, ...]
    """Names; none if it is not known which."""
    health: Health
    kind: str = ""
    """smartctl's `-d`, of a disk that a controller hides."""
    timeout: int | None = None
    """Seconds that the kernel waits for it before it resets it."""
    zoned: str = ""
    """As sysfs has it: `none`, `host-aware`, `host-managed`."""
    failure: str = ""
    """Why it tells nothing."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "path": self.path,
            "arrays": list(self.arrays),
            "type": self.kind or None,
            "timeout_seconds": self.timeout,
            "zoned": self.zoned or None,
            "unseen": self.failure or None,
            "smart": self.health.as_dict(),
        }
