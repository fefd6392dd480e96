"""Writes small blktrace files whose every event is chosen by the test."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x65617407
READ, WRITE, FLUSH, SYNC, QUEUED, ISSUED, COMPLETED, NOTIFY = 1, 2, 4, 8, 16, 64, 128, 1024
Q, G, D, C = 1, 4, 7, 8


@dataclass(frozen=True)
class Record:
    """One record of `struct blk_io_trace`; times are ns, `category` is `BLK_TC_*`."""

    time: int
    code: int
    category: int
    sector: int = 0
    size: int = 0
    pid: int = 1
    device: int = 8 << 20
    cpu: int = 0
    error: int = 0
    pdu: bytes = b""

    def packed(self, sequence: int, order: str = "<") -> bytes:
        """The record's bytes; `order` is `<` for little-endian, `>` for big-endian."""
        action = self.category << 16 | self.code
        head = struct.pack(
            f"{order}IIQQIIIIIHH",
            *(MAGIC, sequence, self.time, self.sector, self.size, action),
            *(self.pid, self.device, self.cpu, self.error, len(self.pdu)),
        )
        return head + self.pdu


def process(pid: int, name: bytes) -> Record:
    return Record(0, 0, NOTIFY, pid=pid, pdu=name.ljust(16, b"\0")[:16])


def write_trace(base: Path, records: Iterable[Record], order: str = "<") -> Path:
    """Writes `base`.blktrace.N, one file a CPU, records in the order given. Returns `base`."""
    by_cpu: dict[int, list[bytes]] = {}
    for record in records:
        packed = by_cpu.setdefault(record.cpu, [])
        packed.append(record.packed(len(packed) + 1, order))
    for cpu, packed in by_cpu.items():
        base.with_name(f"{base.name}.blktrace.{cpu}").write_bytes(b"".join(packed))
    return base
