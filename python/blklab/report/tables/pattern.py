"""Tables of where and when I/Os go: order, rhythm, hot blocks."""

from collections.abc import Mapping
from typing import cast

from blklab.report import words
from blklab.report.tables.base import BAR, Table, figures, text
from blklab.report.view import BLOCK, Device

SECTOR = 512
MOST_BLOCKS = 10


def order(device: Device) -> Table:
    """Sequential streams among reads and writes."""
    rows = []
    for op in ("read", "write"):
        streams = device.streams(op)
        if not streams["ios"]:
            continue
        runs = streams["run_bytes"]
        back_to_back = streams["strictly_sequential_ios"] / streams["ios"]
        rows.append(
            [
                op,
                words.share(streams["sequential_share"]),
                str(streams["sequential_share"] or 0.0),
                words.share(back_to_back),
                words.count(streams["runs"]),
                words.size(runs["mean"]),
                words.size(runs["p50"]),
                words.size(runs["p95"]),
                words.size(runs["max"]),
                words.count(streams["peak_concurrent_streams"]),
            ]
        )
    headings = figures("back to back", "runs", "mean run", "p50", "p95", "longest", "streams")
    columns = [text(""), *figures("sequential"), BAR, *headings]
    note = "sequential: continues one of the streams going on; back to back: the I/O just before"
    return Table("Sequentiality", columns, rows, note, spare=("", "p50", "p95", "runs"))


def seeks(device: Device) -> Table:
    """Distances from the end of one read or write to the start of the next."""
    found = device.data["pattern"]["seeks"]
    if not found["count"]:
        return Table("Seeks", [], [])
    total = found["count"]

    def distance(sectors: float | None) -> str:
        return words.size(None if sectors is None else SECTOR * sectors)

    row = [
        words.share(found["forward"] / total),
        words.share(found["backward"] / total),
        words.share(found["zero"] / total),
        distance(found["median_distance_sectors"]),
        distance(found["mean_distance_sectors"]),
        distance(found["p95_distance_sectors"]),
    ]
    headings = figures("forward", "backward", "none", "median distance", "mean", "p95")
    return Table("Seeks", headings, [row])


def arrivals(device: Device) -> Table:
    """Index of dispersion at each window width."""
    found = device.data["pattern"]["arrivals"]
    rows = [
        [
            words.duration(scale["window_ns"]),
            words.count(scale["windows"]),
            words.number(scale["mean_ios"]),
            words.count(scale["max_ios"]),
            words.number(scale["index"]),
        ]
        for scale in found["dispersion"]
        if scale["windows"]
    ]
    note = (
        "dispersion: variance / mean of the I/Os in a window; 0 clockwork, 1 chance, more: bursts"
    )
    headings = figures("window", "windows", "mean I/Os", "most I/Os", "dispersion")
    return Table("Burstiness", headings, rows, note)


def gaps(device: Device) -> Table:
    """Times from one arrival to the next."""
    quantiles = device.data["pattern"]["arrivals"]["inter_arrival_ns"]
    found = cast(Mapping[str, float | None], quantiles)
    keys = ("min", "p1", "p5", "p25", "p50", "p75", "p95", "p99", "p99_9", "max", "mean")
    rows = [[words.duration(found[key]) for key in keys]] if found["count"] else []
    columns = figures(*(key.replace("_", ".") for key in keys))
    return Table("Time between arrivals", columns, rows, spare=("p1", "p25", "p75", "p99_9"))


def hotness(device: Device) -> Table:
    """Share of the accesses in the hottest part of the blocks."""
    found = device.data["hotness"]
    rows = [
        [
            f"hottest {words.share(hot['fraction'])}",
            words.size(hot["fraction"] * found["unique_bytes"]),
            words.share(hot["io_share"]),
            str(hot["io_share"]),
        ]
        for hot in found["hottest"]
        if hot["fraction"] * found["unique_blocks"] >= 1
    ]
    zipf = found["zipf"]
    note = {"zipf": "Zipf: ", "uniform": "not Zipf but uniform: "}.get(
        zipf["verdict"], "not Zipf: "
    )
    note += words.zipf_reason(zipf)
    if found["sampled"]:
        note += (
            f"; from a sample of {words.share(found['sample_rate'])} of the blocks"
            f" (distinct blocks ±{words.share(found['relative_error'])})"
        )
    columns = [text("blocks"), *figures("size", "of accesses"), BAR]
    return Table("Hotness", columns, rows, note)


def footprint(device: Device) -> Table:
    """Distinct blocks touched."""
    found = device.data["hotness"]
    if not found["accesses"]:
        return Table("Footprint", [], [])
    row = [
        words.size(found["unique_bytes"]),
        words.size(found["unique_read_blocks"] * BLOCK),
        words.size(found["unique_written_blocks"] * BLOCK),
        # Not below 1: the number of blocks is an estimate.
        words.number(max(1.0, found["accesses_per_block"] or 1.0)),
        words.share(found["first_touch_share"]),
    ]
    headings = figures("touched", "read", "written", "accesses a block", "first touches")
    return Table("Footprint", headings, [row])


def hot_blocks(device: Device, most: int = MOST_BLOCKS) -> Table:
    """The hottest blocks themselves."""
    found = device.data["hotness"]
    rows = []
    for block in found["top"][:most]:
        accesses = block["reads"] + block["writes"]
        share = accesses / found["accesses"]
        counts = [words.count(block["reads"]), words.count(block["writes"]), words.share(share)]
        rows.append([words.count(block["block"] * 8), *counts, str(share)])
    columns = [*figures("sector", "reads", "writes", "of accesses"), BAR]
    return Table(f"Hottest blocks of {words.size(BLOCK)}", columns, rows)
