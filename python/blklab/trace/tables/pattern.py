"""Tables of the access pattern: order, rhythm, hot blocks."""

from blklab.render import formatting
from blklab.render.table import BAR, TextTable, number_columns, text_column
from blklab.trace.view import BLOCK, DeviceView
from blklab.units import SECTOR

MOST_BLOCKS = 10


def order(device: DeviceView) -> TextTable:
    """Returns the sequential streams of reads and writes."""
    rows = []
    for op in ("read", "write"):
        streams = device.streams(op)
        if not streams.ios:
            continue
        runs = streams.run_bytes
        cells = [
            op,
            formatting.share(streams.sequential_share),
            str(streams.sequential_share or 0.0),
            formatting.share(streams.strictly_sequential_ios / streams.ios),
            formatting.count(streams.runs),
            *map(formatting.size, (runs.mean, runs.p50, runs.p95, runs.max)),
            formatting.count(streams.peak_concurrent_streams),
        ]
        rows.append(cells)
    headings = number_columns("back to back", "runs", "mean run", "p50", "p95", "longest", "streams")
    columns = [text_column(""), *number_columns("sequential"), BAR, *headings]
    note = "sequential: continues one of the current streams; back to back: continues the previous I/O"
    return TextTable("Sequentiality", columns, rows, note, spare=("", "p50", "p95", "runs"))


def seeks(device: DeviceView) -> TextTable:
    seek_profile = device.data.pattern.seeks
    if not seek_profile.count:
        return TextTable("Seeks", [], [])

    def distance(sectors: float | None) -> str:
        return formatting.size(None if sectors is None else SECTOR * sectors)

    row = [
        formatting.share(part / seek_profile.count)
        for part in (seek_profile.forward, seek_profile.backward, seek_profile.zero)
    ]
    row += map(
        distance,
        (seek_profile.median_distance_sectors, seek_profile.mean_distance_sectors, seek_profile.p95_distance_sectors),
    )
    headings = number_columns("forward", "backward", "none", "median distance", "mean", "p95")
    return TextTable("Seeks", headings, [row])


def arrivals(device: DeviceView) -> TextTable:
    """Returns the index of dispersion for each window width."""
    rows = [
        [
            formatting.duration(scale.window_ns),
            formatting.count(scale.windows),
            formatting.number(scale.mean_ios),
            formatting.count(scale.max_ios),
            formatting.number(scale.index),
        ]
        for scale in device.dispersion()
    ]
    note = "dispersion: variance / mean of the I/Os in a window; 0: regular, 1: random, more: bursts"
    return TextTable(
        "Burstiness", number_columns("window", "windows", "mean I/Os", "most I/Os", "dispersion"), rows, note
    )


def gaps(device: DeviceView) -> TextTable:
    """Returns the table of times between arrivals."""
    quantiles = device.data.pattern.arrivals.inter_arrival_ns
    keys = ("min", "p1", "p5", "p25", "p50", "p75", "p95", "p99", "p99_9", "max", "mean")
    rows = [[formatting.duration(getattr(quantiles, key)) for key in keys]] if quantiles.count else []
    columns = number_columns(*(key.replace("_", ".") for key in keys))
    return TextTable("Time between arrivals", columns, rows, spare=("p1", "p25", "p75", "p99_9"))


def hotness(device: DeviceView) -> TextTable:
    """Returns the share of accesses to the hottest blocks."""
    hotness_found = device.data.hotness
    rows = [
        [
            f"hottest {formatting.share(hot.fraction)}",
            formatting.size(hot.fraction * hotness_found.unique_bytes),
            formatting.share(hot.io_share),
            str(hot.io_share),
        ]
        for hot in hotness_found.hottest
        if hot.fraction * hotness_found.unique_blocks >= 1
    ]
    zipf = hotness_found.zipf
    note = {"zipf": "Zipf: ", "uniform": "not Zipf but uniform: "}.get(zipf.verdict, "not Zipf: ")
    note += formatting.zipf_reason(zipf)
    if hotness_found.sampled:
        note += (
            f"; from a sample of {formatting.share(hotness_found.sample_rate)} of the blocks (distinct blocks "
            f"±{formatting.share(hotness_found.relative_error)}); --exact counts all"
        )
    return TextTable("Hotness", [text_column("blocks"), *number_columns("size", "of accesses"), BAR], rows, note)


def footprint(device: DeviceView) -> TextTable:
    """Returns the table of distinct blocks."""
    hotness = device.data.hotness
    if not hotness.accesses:
        return TextTable("Footprint", [], [])
    sizes = (hotness.unique_bytes, hotness.unique_read_blocks * BLOCK, hotness.unique_written_blocks * BLOCK)
    # At least 1: the number of blocks is an estimate.
    accesses = formatting.number(max(1.0, hotness.accesses_per_block or 1.0))
    row = [*map(formatting.size, sizes), accesses, formatting.share(hotness.first_touch_share)]
    headings = number_columns("touched", "read", "written", "accesses a block", "first touches")
    return TextTable("Footprint", headings, [row])


def hot_blocks(device: DeviceView) -> TextTable:
    hotness_found = device.data.hotness
    rows = []
    for block in hotness_found.top[:MOST_BLOCKS]:
        accesses = block.reads + block.writes
        share = accesses / hotness_found.accesses
        counts = [formatting.count(block.reads), formatting.count(block.writes), formatting.share(share)]
        rows.append([formatting.count(block.block * 8), *counts, str(share)])
    columns = [*number_columns("sector", "reads", "writes", "of accesses"), BAR]
    return TextTable(f"Hottest blocks of {formatting.size(BLOCK)}", columns, rows)
