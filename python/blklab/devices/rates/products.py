"""What is known of a flash disk without measuring it: its product's features."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    """The features of a flash disk. None or an empty text: it is not known."""

    bus: str
    """`nvme` or `sata`; SAS is a faster SATA."""

    protected: bool
    """Whether capacitors protect its memory from a power cut, so that flushes need not wait for flash."""

    capacity: int
    """Bytes."""

    maker: str = ""
    family: str = ""
    """The product without its capacity: `990 PRO`."""

    nand: str = ""
    """`slc`, `mlc`, `tlc` or `qlc`: one to four bits in a cell."""

    dram: bool | None = None
    """Whether it keeps its map in its own memory."""

    rated_random_read_iops: float | None = None
    """What its maker states: I/Os of 4 KiB a second, and bytes a second; writes of a new disk."""

    rated_random_write_iops: float | None = None
    rated_read_bandwidth: float | None = None
    rated_write_bandwidth: float | None = None
