"""fio's small languages: `bs`, `bssplit`, `random_distribution`, `rate_iops`, percentages.

As in fio(1) of fio 3.33 and fio's own options.c. Every function raises ValueError.
"""

import re

from blklab import units
from blklab.documents.cell import Distribution
from blklab.units import SECTOR

Sizes = list[tuple[int, float]]  # Block sizes and their weights, which add up to 1

RW = {  # What each value of `rw` does: reads, writes, at random
    "read": (True, False, False),
    "write": (False, True, False),
    "randread": (True, False, True),
    "randwrite": (False, True, True),
    **dict.fromkeys(("rw", "readwrite"), (True, True, False)),
    "randrw": (True, True, True),
}


NAMES_FILES = {"mem": ":", "iomem": ":", "buffer_pattern": "'"}
"""Options that name a file if their value has this character."""

LARGEST_BLOCK = 1 << 30  # Bytes; sizes of I/Os are 32-bit numbers in the simulator
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s?%", re.A)


_BINARY = re.compile(r"(\d)\s?([kmgtpe])ib", re.I | re.A)


def sizes_for_fio(text: str) -> str:
    """Returns sizes as fio reads them.

    To fio, `4k` is 4096 bytes and `4KiB` 4000 (fio(1), kb_base). In experiment files both are 4096.
    """
    return _BINARY.sub(r"\1\2", text)


def block_size(text: str) -> int:
    """Returns the bytes of one block size."""
    size = units.parse_size(text)
    if not 0 < size <= LARGEST_BLOCK:
        raise ValueError(f"block size {text.strip()!r}: expected 1 byte to 1 GiB")
    return size


def check_direct(bs: str | None, bssplit: str | None) -> None:
    """Raises ValueError for block sizes that the kernel refuses with direct I/O (open(2))."""
    distinct_sizes = {size for sizes in block_sizes(bs, bssplit) for size, _ in sizes}
    for size in distinct_sizes:
        if size % SECTOR:
            raise ValueError(
                f"block size {size}: expected a multiple of 512, "
                "because of direct I/O (direct = false allows other sizes)"
            )


def block_sizes(bs: str | None, bssplit: str | None) -> tuple[Sizes, Sizes]:
    """Returns the sizes of reads and of writes, from `4k,64k` or `4k/60:64k/40,8k/100`."""
    if bs is not None and bssplit is not None:
        raise ValueError("bs and bssplit are both given: use one of them")
    if bssplit is not None:
        reads, writes = directions(bssplit, "bssplit")
        return _split(reads), _split(writes)
    reads, writes = directions(bs or "4k", "bs")
    return [(block_size(reads), 1.0)], [(block_size(writes), 1.0)]


def directions(text: str, option: str) -> tuple[str, str]:
    """Returns the parts of `reads,writes,trims` for reads and for writes."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 3 or not parts[0]:
        raise ValueError(f"{option} {text!r}: expected READS or READS,WRITES")
    writes = parts[1] if len(parts) > 1 and parts[1] else parts[0]
    return parts[0], writes


def _split(text: str) -> Sizes:
    sizes: list[int] = []
    shares: list[float | None] = []
    for part in text.split(":"):
        size, _, share = part.partition("/")
        sizes.append(block_size(size))
        shares.append(_percent(share, "bssplit") if share.strip() else None)
    weights = _fill_shares(shares, f"bssplit {text!r}")
    weighted_sizes = [(size, weight / 100) for size, weight in zip(sizes, weights, strict=True) if weight]
    if len(weighted_sizes) > 64:
        raise ValueError("bssplit has more than 64 sizes, which is fio's limit")
    return weighted_sizes


def _fill_shares(shares: list[float | None], option: str) -> list[float]:
    """Divides the rest of 100 % equally among entries without a share, as fio does."""
    stated_sum = sum(share for share in shares if share is not None)
    blank = shares.count(None)
    if stated_sum > 100.0001 or (not blank and abs(stated_sum - 100) > 0.01):
        raise ValueError(f"{option}: the shares add up to {stated_sum:g} %, expected 100 %")
    equal_share = max(0.0, 100 - stated_sum) / blank if blank else 0.0
    return [equal_share if share is None else share for share in shares]


def distribution(text: str) -> Distribution:
    """Returns a `random_distribution` as the simulator takes it."""
    name, _, parameters = text.strip().partition(":")
    match name:
        case "random" if not parameters:
            return {"kind": "random"}
        case "zipf":
            theta = _parameter(parameters or "1.2", name, 0.0, 100.0)
            if theta == 1.0:
                raise ValueError("zipf:1 is not defined: use a theta other than 1")
            return {"kind": "zipf", "theta": theta}
        case "pareto":
            return {"kind": "pareto", "h": _parameter(parameters or "0.2", name, 0.0, 1.0, includes_maximum=False)}
        case "normal":
            return {"kind": "normal", "deviation": _parameter(parameters, name, 0.0, 100.0)}
        case "zoned":
            return {"kind": "zoned", "zones": _zones(parameters)}
    raise ValueError(
        f"random_distribution {text!r}: expected random, zipf:THETA, pareto:H, normal:DEVIATION or zoned:ACCESS/SIZE:…"
    )


def _parameter(text: str, name: str, minimum: float, maximum: float, *, includes_maximum: bool = True) -> float:
    limit = "up to" if includes_maximum else "below"
    message = f"{name} {text!r}: expected a number above {minimum:g} and {limit} {maximum:g}"
    try:
        value = float(text)
    except ValueError:
        raise ValueError(message) from None
    if not (minimum < value <= maximum) or (not includes_maximum and value == maximum):
        raise ValueError(message)
    return value


def _zones(text: str) -> list[tuple[float, float]]:
    if "," in text:
        raise ValueError("zoned: only one list for reads and writes together is simulated")
    access: list[float | None] = []
    sizes: list[float | None] = []
    for part in text.split(":"):
        first, slash, other = part.partition("/")
        if not slash:
            raise ValueError(f"zoned {text!r}: expected ACCESS/SIZE in percent, such as 60/10:40/90")
        access.append(_percent(first, "zoned") if first.strip() else None)
        sizes.append(_percent(other, "zoned") if other.strip() else None)
    if len(access) > 256:
        raise ValueError("zoned has more than 256 zones, which is fio's limit")
    zones = list(zip(_fill_shares(access, "zoned: accesses"), _fill_shares(sizes, "zoned: sizes"), strict=True))
    if any(hits and not size for hits, size in zones):
        raise ValueError("zoned: a zone of size 0 has accesses")
    return zones


def _percent(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise ValueError(f"{option}: share {text.strip()!r} is not a percentage from 0 to 100")
    return value


def portion(text: str | int) -> tuple[int, float | None]:
    """Returns (bytes, None), or (0, share) of `25%`: sizes may be percentages of the stack."""
    if isinstance(text, str) and text.strip().endswith("%"):
        match = _PERCENT.fullmatch(text.strip())
        if match is None or not 0 <= float(match[1]) <= 100:
            raise ValueError(f"{text!r} is not a percentage from 0% to 100%")
        return 0, float(match[1]) / 100
    return (units.parse_size(text) if isinstance(text, str) else text), None


def rate(text: str, option: str, *, sizes: bool) -> float:
    """Returns a `rate` or `rate_iops`, which must be the same for reads and writes."""
    reads, writes = directions(text, option)
    try:
        values = {float(units.parse_size(part)) if sizes else float(part) for part in (reads, writes)}
    except ValueError as error:
        raise ValueError(f"{option} {text!r}: {error}") from None
    if any(value != value for value in values):  # noqa: PLR0124
        raise ValueError(f"{option} {text!r}: expected 0 or more a second")
    if len(values) != 1:
        raise ValueError(f"{option} {text!r}: only one rate for reads and writes is simulated")
    value = values.pop()
    if not 0 <= value < 1e18:
        raise ValueError(f"{option} {text!r}: expected 0 or more a second")
    return value
