"""A flash disk's parameters from the rates that are expected of it."""

from collections.abc import Collection, Mapping
from math import hypot
from typing import Any

from blklab.devices.rates.model import ExpectedRate, estimate
from blklab.devices.rates.products import Product
from blklab.devices.rates.quantities import (
    DURABLE,
    RANDOM,
    RANDOM_WRITE,
    READ_BYTES,
    WRITE_BYTES,
    WRITE_BYTES_AFTER,
    FlashRate,
)

SMALL = 4096  # Bytes of an I/O at random places
SECOND = 10**9  # ns
SPARE = 1.2  # How much more flash and interface do than what limits a rate
LEAST_NS = 100  # Of a command
MOST = 3.0  # The largest deviation that a device may have: a rated figure that is far from all others has a larger one

SLC_SHARE = 0.1
"""The cache of single-bit cells as a share of the capacity: the median of 20 disks in reference/foreign/rates.csv. They
have 0.01 to 0.35 of it."""

LARGE_SATA_WRITES = 0.5
"""The deviation of large writes of a SATA disk for desktops: whether its cache of single-bit cells takes them is not
simulated. Two disks wrote at 0.3 and 0.8 of their interface's rate after it (reference/foreign/rates.csv)."""

IN_SEQUENCE = {"sequence_read": 0.35, "sequence_write": 0.7}
"""How much the rate of small I/Os in sequence differs from that of random ones, which these models have: the deviation
of its logarithm in 25 results of reference/foreign/iocost.csv."""

WRITE_NS = 20_000
"""What a small write takes that need not be durable, one at a time, with the host: 10 to 45 µs in
reference/foreign/flushes.csv."""


STATED = {
    "sustained_read_command_ns": ("read", "read"),
    "sustained_read_bandwidth": ("large_read", "read"),
    "cached_write_command_ns": ("cached_write", "write"),
    "sustained_write_bandwidth": ("large_cached_write", "write"),
    "sustained_write_command_ns": ("write", "write"),
    "fold_ns": ("large_write", "write"),
    "flush_ns": ("sync", "sync"),
    "fua_ns": ("sync", "sync"),
}
"""Keys that a user may state: the deviation that each has, and the one of the table that holds instead."""


def describe_flash(
    table: Mapping[str, Any], product: Product, without: str = "", stated: Collection[str] = ()
) -> dict[str, Any]:
    """Returns a flash disk's table with the rates that are expected of a product in use, and their deviations.

    Nothing that a source measured counts whose name is `without`. Of server disks behind NVMe, their makers state what
    a disk in use does, and few were measured: they stay as they are. The keys of the table that are `stated` stay, too,
    with the deviations that the table has.
    """
    if product.bus == "nvme" and product.protected:
        return dict(table)
    kept = {key: value for key, value in table.items() if key in stated}
    result = dict(table)
    base = table.get("uncertainty", {})
    deviations = {**base, **IN_SEQUENCE}
    if product.bus == "nvme":
        _describe_nvme(result, deviations, product, without, kept)
    else:
        _describe_sata(result, deviations, product, without, kept)
    _describe_durable_writes(result, deviations, product, without)
    result |= kept
    for key, (kind, usual) in STATED.items():
        if key in kept:
            deviations[kind] = base.get(kind, base.get(usual, 0.0))
    rounded = {name: round(min(MOST, deviation), 3) for name, deviation in deviations.items()}
    return {**result, "uncertainty": rounded}


def _describe_nvme(
    result: dict[str, Any], deviations: dict[str, float], product: Product, without: str, kept: Mapping[str, Any]
) -> None:
    reads = _expect(RANDOM, "read", product, without)
    cached = _expect(RANDOM, "cached_write", product, without)
    writes = _expect(RANDOM_WRITE, "", product, without)
    read_bytes = _expect(READ_BYTES, "", product, without)
    write_bytes = _expect(WRITE_BYTES, "", product, without)
    after = _expect(WRITE_BYTES_AFTER, "", product, without)
    result.setdefault("slc_bytes", round(SLC_SHARE * product.capacity))
    result["units"] = max(result["units"], round(SPARE * reads.rate * result["page_read_ns"] / SECOND))
    result["sustained_read_bandwidth"] = round(max(read_bytes.rate, SPARE * SMALL * reads.rate))
    result["sustained_write_bandwidth"] = round(max(write_bytes.rate, SPARE * SMALL * cached.rate))
    result |= kept  # What follows from these is computed with the user's
    result["sustained_read_command_ns"] = _command_ns(reads.rate, result["sustained_read_bandwidth"])
    result["cached_write_command_ns"] = _command_ns(cached.rate, result["sustained_write_bandwidth"])
    result["sustained_write_command_ns"] = _command_ns(writes.rate, result["sustained_write_bandwidth"])
    unit = result["units"] * result["program_bytes"] * SECOND
    if "program_ns" not in kept:
        result["program_ns"] = min(result["program_ns"], round(unit / (SPARE * result["sustained_write_bandwidth"])))
    result["fold_ns"] = max(result["program_ns"], round(unit / after.rate))
    result["direct_ns"] = 0
    deviations["read"] = reads.deviation
    deviations["large_read"] = read_bytes.deviation
    deviations["cached_write"] = cached.deviation
    deviations["large_cached_write"] = write_bytes.deviation
    deviations["write"] = writes.deviation
    deviations["large_write"] = after.deviation
    deviations["mixed"] = hypot(reads.deviation, cached.deviation)


def _describe_sata(
    result: dict[str, Any], deviations: dict[str, float], product: Product, without: str, kept: Mapping[str, Any]
) -> None:
    """The interface limits the rates: random writes are as fast with and without a cache of single-bit cells."""
    reads = _expect(RANDOM, "read", product, without)
    writes = _expect(RANDOM_WRITE, "", product, without)
    result["sustained_read_command_ns"] = _command_ns(reads.rate, result["read_bandwidth"])
    result["sustained_write_command_ns"] = _command_ns(writes.rate, result["write_bandwidth"])
    result["cached_write_command_ns"] = kept.get("sustained_write_command_ns", result["sustained_write_command_ns"])
    deviations["read"] = reads.deviation
    deviations["write"] = writes.deviation
    deviations["cached_write"] = writes.deviation
    deviations["mixed"] = hypot(reads.deviation, writes.deviation)
    if not product.protected:
        deviations["large_write"] = deviations["large_cached_write"] = LARGE_SATA_WRITES


def _describe_durable_writes(
    result: dict[str, Any], deviations: dict[str, float], product: Product, without: str
) -> None:
    flush, fua = (_expect(DURABLE, way, product, without) for way in ("flush", "fua"))
    result["flush_ns"] = max(LEAST_NS, round(SECOND / flush.rate) - WRITE_NS)
    if product.bus == "nvme":
        result["fua_ns"] = max(LEAST_NS, round(SECOND / fua.rate) - WRITE_NS)
    deviations["sync"] = max(flush.deviation, fua.deviation)


def _command_ns(rate: float, bandwidth: float) -> int:
    """Returns the time of a command of a disk that does so many small I/Os a second."""
    return max(LEAST_NS, round(SECOND / rate - SMALL * SECOND / bandwidth))


def _expect(quantity: FlashRate, way: str, product: Product, without: str) -> ExpectedRate:
    expected = estimate(quantity, way, product, without)
    if expected is None:
        raise LookupError(f"no measurement says anything of {quantity.name} of a disk behind {product.bus}")
    return expected
