"""Tables of the load: operations, sizes, processes, files."""

from blklab.render import formatting
from blklab.render.table import BAR, TextTable, drop_empty_columns, number_columns, text_column
from blklab.text.printing import printable
from blklab.trace.view import DeviceView, ProfileView

MOST_GROUPS = 10  # Maximum number of processes, sources and CPUs that are listed
MOST_SIZES = 5  # Number of sizes listed for each operation
SPARKS = 60  # Maximum number of characters of a sparkline
KINDS = {"sources": "Source", "processes": "Process", "cpus": "CPU"}


def operations(device: DeviceView) -> TextTable:
    """Returns counts, bytes, mean sizes and flags by operation."""
    flags = {"sync": "sync", "meta": "meta", "ahead": "ahead", "fua": "FUA", "preflush": "preflush"}
    headings = ["I/Os", "share", "IOPS", "bytes", "rate", "mean size", *flags.values(), "merged"]
    rows = []
    seconds = device.span_ns / 1e9
    for op in device.ops:
        op_load = device.op(op)
        per_second = (op_load.ios / seconds, op_load.bytes / seconds) if seconds else (None, None)
        rows.append(
            [
                op,
                formatting.count(op_load.ios),
                formatting.share(op_load.share_of_ios),
                formatting.number(per_second[0]),
                formatting.size(op_load.bytes),
                formatting.rate(per_second[1]) if op_load.bytes else formatting.NONE,
                formatting.size(op_load.sizes.mean_bytes),
                *(_part(getattr(op_load, flag), op_load.ios) for flag in flags),
                _part(device.life(op).merged, op_load.ios),
            ]
        )
    spare = ("meta", "ahead", "rate", "mean size", "preflush", "sync", "merged", "IOPS")
    return drop_empty_columns(TextTable("Operations", [text_column(""), *number_columns(*headings)], rows, spare=spare))


def over_time(device: DeviceView) -> TextTable:
    """Returns IOPS and the slowest 1 % of reads and writes as sparklines."""
    width, slices = device.slices()
    group_size = -(-len(slices) // SPARKS)
    parts = (
        [slices[start : start + group_size] for start in range(0, len(slices), group_size)] if len(slices) > 1 else []
    )
    seconds = width * group_size / 1e9
    iops = []
    read_p99 = []
    write_p99 = []
    for part in parts:
        iops.append(sum(interval.reads + interval.writes + interval.others for interval in part) / seconds)
        read_p99.append(max(interval.read_p99_ns or 0 for interval in part))
        write_p99.append(max(interval.write_p99_ns or 0 for interval in part))
    rows = [["IOPS", formatting.sparkline(iops), formatting.number(max(iops))]] if parts else []
    for op, p99 in (("read", read_p99), ("write", write_p99)):
        if any(p99):
            title = f"{op} {device.latency_letters} p99"
            rows.append([title, formatting.sparkline(p99), formatting.duration(max(p99))])
    note = f"each character is {formatting.duration(width * group_size)}; the highest one is the figure at the end"
    return TextTable("Over time", [text_column(""), text_column(""), *number_columns("at most")], rows, note)


def _part(part: int, total: int) -> str:
    return formatting.share(part / total) if total else formatting.NONE


def sizes(device: DeviceView) -> TextTable:
    """Returns the most frequent request sizes of each operation."""
    rows = []
    for op in ("read", "write", "discard"):
        sizes_of_op = device.op(op).sizes
        top = sorted(sizes_of_op.exact, key=lambda entry: -entry.count)[:MOST_SIZES]
        shown = [(formatting.size(entry.bytes), entry.count, entry.count * entry.bytes) for entry in top]
        if other_count := len(sizes_of_op.exact) - len(top):
            count = sum(row[1] for row in shown)
            moved_bytes = sum(row[2] for row in shown)
            shown.append((f"{other_count} others", sizes_of_op.count - count, sizes_of_op.total_bytes - moved_bytes))
        for index, (size, count, moved_bytes) in enumerate(shown):
            share = count / sizes_of_op.count
            by_bytes = formatting.share(moved_bytes / sizes_of_op.total_bytes if sizes_of_op.total_bytes else None)
            shares = [formatting.share(share), str(share), by_bytes]
            rows.append([op if index == 0 else "", size, formatting.count(count), *shares])
    columns = [text_column(""), *number_columns("size", "I/Os", "share"), BAR, *number_columns("of the bytes")]
    return TextTable("Request sizes", columns, rows)


def groups(device: DeviceView, kind: str, limit: int = MOST_GROUPS) -> TextTable:
    """Returns I/Os by `processes`, `sources` or `cpus`, with latencies."""
    groups_found = device.groups(kind)
    rows = [
        [
            group.label,
            formatting.count(group.total),
            formatting.share(group.total / device.ios if device.ios else None),
            str(group.total / device.ios if device.ios else 0.0),
            formatting.share(group.ios["read"] / group.total if group.total else None),
            formatting.size(group.bytes),
            *map(formatting.pair, (group.read_ns, group.write_ns)),
            formatting.count(group.errors),
        ]
        for group in groups_found[:limit]
    ]
    headings = number_columns("reads", "bytes", "read p50 / p99", "write p50 / p99", "errors")
    columns = [text_column(KINDS[kind]), *number_columns("I/Os", "share"), BAR, *headings]
    other_groups = groups_found[limit:]
    note = ""
    if other_groups:
        share = sum(group.total for group in other_groups) / device.ios if device.ios else 0.0
        note = f"and {len(other_groups):,} more with {formatting.share(share)} of the I/Os"
    titles = {"sources": "Sources", "processes": "Processes", "cpus": "CPUs"}
    return drop_empty_columns(TextTable(titles[kind], columns, rows, note, spare=("", "reads", "bytes")))


def hot_files(view: ProfileView, limit: int = 100) -> TextTable:
    """Returns the files with most I/Os, and what else the I/Os went to; empty if not asked for."""
    for device in view.devices:
        if not (files := device.data.files):
            continue
        shown_files = [file for file in files.files if file.is_file][:limit]
        shown_files += [file for file in files.files if not file.is_file]
        total = sum(device.op(op).ios for op in ("read", "write"))
        rows = [
            [
                printable(file.name) if file.is_file else f"({file.name})",
                formatting.share((file.reads + file.writes) / total if total else None),
                *map(formatting.count, (file.reads, file.writes)),
                *map(formatting.size, (file.read_bytes, file.write_bytes)),
            ]
            for file in shown_files
        ]
        note = "where files are now: those moved, rewritten or deleted since the recording are not recognised"
        note += "; an I/O counts in each row that it touches"
        if further := len(files.files) - len(shown_files) + files.further:
            note += f"; {formatting.plural(further, 'further file')} with fewer I/Os"
        columns = [text_column("file"), *number_columns("I/Os", "reads", "writes", "read", "written")]
        return TextTable(f"Files of {files.mount} on {device.label}", columns, rows, note)
    return TextTable("", [], [])
