"""fio's recorded output: tests/data/fio/README.md says what is what."""

from pathlib import Path
from typing import Any

from blklab.fio import output

DATA = Path(__file__).parents[1] / "data" / "fio"


def recorded(name: str) -> dict[str, Any]:
    return output.parse_document((DATA / name).read_text())


def plat_value(latency_ns: int) -> int:
    """Returns the middle of the bucket that fio counts a latency in, by fio's own two functions.

    plat_val_to_idx and plat_idx_to_val (stat.c of fio 3.33), done by hand.
    """
    if latency_ns < 128:
        return latency_ns
    shift = latency_ns.bit_length() - 7
    base = 1 << (shift + 6)
    bucket = (latency_ns - base) >> shift
    return int(base + (bucket + 0.5) * (1 << shift))
